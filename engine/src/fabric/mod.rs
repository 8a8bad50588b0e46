//! What lies between two endpoints, and what goes wrong there.
//!
//! [`Impairment`] judges frames one by one: pure, deterministic, the same in virtual time
//! ([`crate::sim`]) and on live ports ([`crate::io::impaired`]).

mod edit;
mod event;
mod held;
mod impairment;
mod rule;
mod stream;

pub use edit::{flip, mark_ce};
pub use event::{Event, EventLog};
pub use held::Held;
pub use impairment::{Fate, Flip, Impairment, Release};
pub use rule::{Action, ActionKind, Chance, PacketClass, Rule, Way};
pub use stream::Stream;

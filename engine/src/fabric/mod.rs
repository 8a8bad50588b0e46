//! What lies between two endpoints, and what goes wrong there.
//!
//! [`Network`] moves packets through hosts' ports, cables and switches: shared buffers, priorities,
//! marking, pauses, several ways to a place.  It knows of a packet what is on its [`Label`], and
//! allocates nothing once it has grown.
//!
//! [`Impairment`] judges frames one by one: pure, deterministic, the same in virtual time
//! ([`crate::sim`]) and on live ports ([`crate::io::impaired`]).

mod buffer;
mod calendar;
mod edit;
mod event;
mod hash;
mod held;
mod impairment;
mod network;
mod packet;
mod red;
mod rule;
mod scheduler;
mod stream;
mod topology;

pub use buffer::BufferSpec;
pub use calendar::Calendar;
pub use edit::{flip, is_ect, mark_ce};
pub use event::{Event, EventLog};
pub use hash::FlowHash;
pub use held::Held;
pub use impairment::{Fate, Flip, Impairment, Release};
pub use network::{
    Cable, Framing, Marking, Network, Node, Occurrence, PortCounters, PortId, PriorityCounters, SwitchId,
    SwitchSpec, Totals, Watchdog,
};
pub use packet::{Label, Priority, Station};
pub use red::{Dice, Red};
pub use rule::{Action, ActionKind, Chance, PacketClass, Rule, Way};
pub use scheduler::Service;
pub use stream::Stream;
pub use topology::{Neighbour, Parts, Plan, SwitchPort, Topology};

//! What an RDMA programmer knows: protection domains, memory regions, work
//! requests, completions and the states of a queue pair.

mod completion;
mod datagram;
mod memory;
mod ring;
mod srq;
mod state;
mod work;

pub use completion::{
    Completion, CompletionQueue, CompletionStatus, Completions, CqEntry, QpEvent, WcOpcode,
};
pub use datagram::{Ah, Datagram, GRH_LEN, UdAttrs};
pub use memory::{Access, AccessError, Memory, MemoryRegion, MrKey, Pd, RegisterError};
pub(crate) use ring::Ring;
pub use srq::{SharedReceiveQueue, Srqn};
pub use state::{InitAttrs, ModifyError, QpState, QpType, RtrAttrs, RtsAttrs, Transition};
pub use work::{PostError, RecvWr, SendFlags, SendOp, SendWr, Sge};

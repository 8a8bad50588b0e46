//! Connection management: how two sides agree on a connection before it exists.
//!
//! Messages are datagrams of 256 bytes (MADs) between QP 1 and QP 1.  [`Mad`] is one of them,
//! [`Message`] what it says, [`CmaHeader`] the addresses that `librdmacm` puts before a consumer's
//! private data.  [`Agent`] keeps the state of all connections of an endpoint: it takes MADs, calls
//! and the time, and says what to send and what has happened.  Like the transport it reads no
//! clock and does no I/O; unlike it, it allocates, a little, for each connection.

mod agent;
mod mad;
mod message;
mod service;

pub use agent::{Accept, Agent, AgentConfig, CallError, CommId, Connect, Event, Outgoing, Peer};
pub use mad::{Attribute, MAD_LEN, Mad, MadError};
pub use message::{
    Drep, Dreq, Message, Mra, MraOf, PrimaryPath, Rej, RejReason, Rep, Req, Rtu, Service, SidrRep, SidrReq,
    SidrStatus,
};
pub use service::{CmaError, CmaHeader, PortSpace, ServiceId};

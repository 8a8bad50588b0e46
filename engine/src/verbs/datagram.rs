//! Datagrams: where they go, and what lies before a received one.

use crate::units::{Mtu, Qpn};
use crate::wire::Gid;

/// Bytes before the payload of a received datagram.  They hold the IPv6 header or GRH; of an IPv4
/// datagram, the first 20 are zero and the others its IPv4 header.
pub const GRH_LEN: u32 = 40;

/// An address handle: how packets of one datagram queue pair reach a host.  See
/// [`QueuePair::create_ah`](crate::transport::QueuePair::create_ah).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ah(pub(crate) u32);

/// Where a datagram goes, and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The way to the host.
    pub ah: Ah,
    /// The queue pair there.
    pub qpn: Qpn,
    /// The Q_Key of that queue pair.  With bit 31 set, the sending queue pair's own is sent
    /// instead: such keys are not for everybody.
    pub qkey: u32,
    /// Immediate data.
    pub imm: Option<u32>,
}

/// Attributes of RESET to INIT of a datagram queue pair.
#[derive(Clone, Copy, Debug)]
pub struct UdAttrs {
    /// The partition key.
    pub pkey: u16,
    /// What senders must know to be heard.
    pub qkey: u32,
    /// The port's address: datagrams to others are dropped.
    pub own: Gid,
    /// The port's MTU: the longest message.
    pub mtu: Mtu,
}

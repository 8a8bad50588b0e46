//! What a port does as a host on its network beside RoCE: it has addresses, answers for them and
//! finds those of others.
//!
//! ```text
//! ARP request, neighbour solicitation for an address of ours -> reply, advertisement
//! ICMP and ICMPv6 echo request to an address of ours         -> echo reply
//! ARP reply, neighbour advertisement                          -> the table of neighbours
//! datagram to QP 1                                            -> the inbox of management datagrams
//! ```
//!
//! [`Host`] is pure as the transport is: frames as slices, time as an argument; what it has to
//! send waits until the endpoint takes it.

mod arp;
mod gsi;
mod host;
mod icmp;
mod neighbours;

pub use gsi::Datagram;
pub use host::{Host, HostConfig, Subnet, SubnetError};
pub use neighbours::Resolution;

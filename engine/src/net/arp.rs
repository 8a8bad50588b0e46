//! ARP for IPv4 over Ethernet.

use crate::wire::MacAddr;
use core::net::Ipv4Addr;

/// Ethernet, IPv4, and the lengths of their addresses.
const PREFIX: [u8; 6] = [0, 1, 8, 0, 6, 4];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Request,
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arp {
    pub(super) operation: Operation,
    pub(super) sender_mac: MacAddr,
    pub(super) sender: Ipv4Addr,
    pub(super) target_mac: MacAddr,
    pub(super) target: Ipv4Addr,
}

impl Arp {
    pub(super) const LEN: usize = 28;

    /// `None` for other hardware, other protocols, other operations, and what is cut short.
    pub(super) fn parse(bytes: &[u8]) -> Option<Arp> {
        let b: &[u8; Arp::LEN] = bytes.first_chunk()?;
        if b[..6] != PREFIX {
            return None;
        }
        let mac = |at: usize| MacAddr([b[at], b[at + 1], b[at + 2], b[at + 3], b[at + 4], b[at + 5]]);
        let ip = |at: usize| Ipv4Addr::new(b[at], b[at + 1], b[at + 2], b[at + 3]);
        let operation = match [b[6], b[7]] {
            [0, 1] => Operation::Request,
            [0, 2] => Operation::Reply,
            _ => return None,
        };
        Some(Arp { operation, sender_mac: mac(8), sender: ip(14), target_mac: mac(18), target: ip(24) })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&PREFIX);
        out.extend_from_slice(&[0, if self.operation == Operation::Request { 1 } else { 2 }]);
        out.extend_from_slice(&self.sender_mac.0);
        out.extend_from_slice(&self.sender.octets());
        out.extend_from_slice(&self.target_mac.0);
        out.extend_from_slice(&self.target.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_refusals() {
        let arp = Arp {
            operation: Operation::Reply,
            sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            sender: Ipv4Addr::new(198, 18, 0, 1),
            target_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            target: Ipv4Addr::new(198, 18, 0, 2),
        };
        let mut bytes = Vec::new();
        arp.emit(&mut bytes);
        assert_eq!(Arp::parse(&bytes), Some(arp));
        assert_eq!(Arp::parse(&bytes[..27]), None);
        for at in [1, 3, 4, 5, 7] {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x10;
            assert_eq!(Arp::parse(&wrong), None, "{at}");
        }
    }
}

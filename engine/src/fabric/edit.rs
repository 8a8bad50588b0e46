//! Changes to a frame on its way.

use super::impairment::Flip;
use crate::wire::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_ROCEV1, ETHERTYPE_VLAN, Ecn, Ethernet, Vlan};

/// Flips a bit.
#[inline]
pub fn flip(frame: &mut [u8], flip: Flip) {
    if let Some(byte) = frame.get_mut(flip.byte as usize) {
        *byte ^= flip.mask;
    }
}

/// Marks a frame with congestion experienced, as a switch does: the ECN bits of its IP header, and
/// the IPv4 header checksum with them.  The iCRC, which leaves them out, stays right.
///
/// Whether it is an IP frame, and so marked.
pub fn mark_ce(frame: &mut [u8]) -> bool {
    let Some((l3, ethertype)) = network(frame) else { return false };
    match ethertype {
        ETHERTYPE_IPV4 => {
            let Some(h) = frame.get_mut(l3..).and_then(|h| h.first_chunk_mut::<20>()) else { return false };
            let (old, new) = (h[1], Ecn::Ce.in_tos(h[1]));
            h[1] = new;
            // RFC 1624: the sum moves by the difference of the word that changed.
            let checksum = !u16::from_be_bytes([h[10], h[11]]);
            let sum = u32::from(checksum) + u32::from(!u16::from(old)) + u32::from(new);
            let sum = (sum & 0xFFFF) + (sum >> 16);
            let sum = ((sum & 0xFFFF) + (sum >> 16)) as u16;
            [h[10], h[11]] = (!sum).to_be_bytes();
            true
        }
        ETHERTYPE_IPV6 | ETHERTYPE_ROCEV1 => {
            let Some(h) = frame.get_mut(l3..).and_then(|h| h.first_chunk_mut::<40>()) else { return false };
            // The low two bits of the traffic class, which lies across two bytes.
            h[1] |= (Ecn::Ce as u8) << 4;
            true
        }
        _ => false,
    }
}

/// Whether a frame may be marked: ECN-capable, and not marked yet.
pub fn is_ect(frame: &[u8]) -> bool {
    let Some((l3, ethertype)) = network(frame) else { return false };
    let Some([a, b]) = frame.get(l3..).and_then(|h| h.first_chunk::<2>()) else { return false };
    let tos = match ethertype {
        ETHERTYPE_IPV4 => *b,
        ETHERTYPE_IPV6 | ETHERTYPE_ROCEV1 => a << 4 | b >> 4,
        _ => return false,
    };
    matches!(Ecn::of_tos(tos), Ecn::Ect0 | Ecn::Ect1)
}

/// Where the network header begins, and what it is.
fn network(frame: &[u8]) -> Option<(usize, u16)> {
    let at = |i: usize| Some(u16::from_be_bytes([*frame.get(i)?, *frame.get(i + 1)?]));
    match at(Ethernet::LEN - 2)? {
        ETHERTYPE_VLAN => Some((Ethernet::LEN + Vlan::LEN, at(Ethernet::LEN + Vlan::LEN - 2)?)),
        ethertype => Some((Ethernet::LEN, ethertype)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::tests::frame;
    use super::*;
    use crate::wire::{Opcode, classify};

    #[test]
    fn a_mark_keeps_checksum_and_icrc_right() {
        for v6 in [false, true] {
            for tos in 0..=255u8 {
                let mut bytes = frame(v6, tos, Opcode::RC_WRITE_ONLY, 7, 64);
                assert!(mark_ce(&mut bytes));
                let p = classify(&bytes).unwrap_or_else(|e| panic!("tos {tos}: {e}"));
                assert!(p.verify_icrc());
                assert_eq!((p.ecn(), p.dscp()), (Ecn::Ce, tos >> 2));
            }
        }
        assert!(!mark_ce(&mut [0; 10]));
        assert!(!mark_ce(&mut [0; 64]));
    }
}

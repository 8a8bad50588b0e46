//! MAC control frames that pause a sender: 802.1Qbb (PFC) and 802.3x.

use super::{Ethernet, MIN_FRAME, MacAddr};
use crate::units::{Duration, Rate};

/// EtherType of MAC control frames.
pub const ETHERTYPE_MAC_CONTROL: u16 = 0x8808;
/// Where they are sent: no bridge forwards them.
pub const PAUSE_ADDRESS: MacAddr = MacAddr([0x01, 0x80, 0xC2, 0x00, 0x00, 0x01]);
/// Priorities of a link.
pub const PRIORITIES: usize = 8;

const OPCODE_PAUSE: u16 = 0x0001;
const OPCODE_PFC: u16 = 0x0101;
/// Bits of line time in a quantum.
const QUANTUM_BITS: u64 = 512;

/// What a pause frame says.  Times are in quanta of 512 bit times; 0 ends a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// 802.1Qbb: the priorities whose bit is set are paused or go on; the others are left alone.
    Pfc {
        /// Bit n is priority n.
        enable: u8,
        /// By priority.
        quanta: [u16; PRIORITIES],
    },
    /// 802.3x: everything is paused, or goes on.
    Link {
        /// For how long.
        quanta: u16,
    },
}

impl Pause {
    /// Bytes of a frame without FCS.
    pub const FRAME_LEN: usize = MIN_FRAME;

    /// A PFC frame that gives the priorities of `enable` the same time.
    pub fn pfc(enable: u8, quanta: u16) -> Pause {
        let of = |p: usize| if enable >> p & 1 == 1 { quanta } else { 0 };
        Pause::Pfc { enable, quanta: core::array::from_fn(of) }
    }

    /// What `frame`, an untagged Ethernet frame, says; `None` when it is no pause frame or too short.
    pub fn parse(frame: &[u8]) -> Option<Pause> {
        let ethernet = Ethernet::parse(frame)?;
        if ethernet.ethertype != ETHERTYPE_MAC_CONTROL {
            return None;
        }
        let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        match word(Ethernet::LEN)? {
            OPCODE_PAUSE => Some(Pause::Link { quanta: word(16)? }),
            OPCODE_PFC if ethernet.dst == PAUSE_ADDRESS => {
                let mut quanta = [0; PRIORITIES];
                for (p, time) in quanta.iter_mut().enumerate() {
                    *time = word(18 + 2 * p)?;
                }
                Some(Pause::Pfc { enable: word(16)? as u8, quanta })
            }
            _ => None,
        }
    }

    /// Writes the frame of a port with address `src` and returns its length.
    ///
    /// # Panics
    ///
    /// When `out` is shorter than [`Pause::FRAME_LEN`].
    pub fn emit(&self, src: MacAddr, out: &mut [u8]) -> usize {
        let out = &mut out[..Self::FRAME_LEN];
        out.fill(0);
        Ethernet { dst: PAUSE_ADDRESS, src, ethertype: ETHERTYPE_MAC_CONTROL }.emit(out);
        let mut put = |at: usize, word: u16| out[at..at + 2].copy_from_slice(&word.to_be_bytes());
        match self {
            Pause::Link { quanta } => {
                put(14, OPCODE_PAUSE);
                put(16, *quanta);
            }
            Pause::Pfc { enable, quanta } => {
                put(14, OPCODE_PFC);
                put(16, u16::from(*enable));
                for (p, time) in quanta.iter().enumerate() {
                    put(18 + 2 * p, *time);
                }
            }
        }
        Self::FRAME_LEN
    }
}

/// How long `quanta` last at the speed of a port; no time at all without speed.
pub fn pause_time(quanta: u16, speed: Rate) -> Duration {
    let bits = u64::from(quanta) * QUANTUM_BITS;
    Duration::from_nanos((bits * 1_000_000_000).checked_div(speed.bps()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

    #[test]
    fn a_pfc_frame_as_the_standard_has_it() {
        let mut out = [0xEE; 64];
        let pause = Pause::pfc(0x08, 0xFFFF);
        assert_eq!(pause.emit(SRC, &mut out), 60);
        let mut want = vec![0x01, 0x80, 0xC2, 0, 0, 1, 2, 0, 0, 0, 0, 7, 0x88, 0x08, 1, 1, 0, 8];
        want.extend([0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0]);
        want.resize(60, 0);
        assert_eq!(out[..60], want);
        assert_eq!(Pause::parse(&out[..60]), Some(pause));
        // No shorter than its last time; one more byte decides.
        assert_eq!(Pause::parse(&out[..34]), Some(pause));
        assert_eq!(Pause::parse(&out[..33]), None);
    }

    #[test]
    fn an_802_3x_frame() {
        let mut out = [0; 60];
        let pause = Pause::Link { quanta: 0x1234 };
        pause.emit(SRC, &mut out);
        assert_eq!(out[14..18], [0, 1, 0x12, 0x34]);
        assert_eq!(Pause::parse(&out), Some(pause));
        // The station's own address is right too, but not for PFC.
        out[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        assert_eq!(Pause::parse(&out), Some(pause));
        out[14] = 1;
        assert_eq!(Pause::parse(&out), None);
    }

    #[test]
    fn what_is_no_pause_frame() {
        let mut out = [0; 60];
        Pause::pfc(0xFF, 1).emit(SRC, &mut out);
        for at in [12, 13, 14, 15] {
            let mut other = out;
            other[at] ^= 0x40;
            assert_eq!(Pause::parse(&other), None, "byte {at}");
        }
        assert_eq!(Pause::parse(&[]), None);
    }

    #[test]
    fn quanta_at_port_speeds() {
        let us = |gbps| pause_time(u16::MAX, Rate::from_gbps(gbps)).as_nanos() as f64 / 1000.0;
        for (gbps, want) in [(10, 3355.4), (25, 1342.2), (40, 838.8), (100, 335.5), (200, 167.8), (400, 83.9)]
        {
            assert!((us(gbps) - want).abs() < 0.1, "{gbps} Gb/s: {}", us(gbps));
        }
        assert_eq!(pause_time(1, Rate::from_gbps(10)).as_nanos(), 51);
        assert_eq!(pause_time(1, Rate::from_bps(0)).as_nanos(), 0);
    }
}

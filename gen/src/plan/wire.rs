//! The packets of one message, byte by byte.

use crate::config::Verb;
use roce_engine::units::Mtu;
use roce_engine::wire::{Encapsulation, L1_OVERHEAD, Opcode, frame_len};

/// What decides the packets of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What is posted.
    pub verb: Verb,
    /// Bytes of payload.
    pub size: u32,
    /// Path MTU.
    pub mtu: Mtu,
    /// What precedes the BTH.
    pub encapsulation: Encapsulation,
    /// Whether its frames are tagged.
    pub vlan: bool,
    /// Whether it is a datagram.
    pub datagram: bool,
}

/// One packet of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Bytes of payload, without padding.
    pub payload: u32,
    /// Bytes of the Ethernet frame without its FCS.
    pub l2: u32,
    /// Bytes of line time: the frame, FCS, preamble and gap.
    pub l1: u32,
}

/// What messages of one kind come to on the wire, whatever their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    mtu: Mtu,
    /// Bytes of the frame of a first, middle, last and only packet besides payload and pad.
    heads: [u32; 4],
}

/// All frames of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets with payload.
    pub packets: u32,
    /// Bytes of frames without FCS.
    pub l2: u64,
    /// Bytes of line time.
    pub l1: u64,
}

impl Frames {
    /// Those of messages that are like `m` but for their size.
    pub fn new(m: Message) -> Frames {
        let opcodes = if m.datagram { datagram(m.verb) } else { opcodes(m.verb) };
        // Enough payload that no frame is filled up to the shortest.
        let heads = opcodes.map(|opcode| packet(m, opcode, 256).l2 - 256);
        Frames { mtu: m.mtu, heads }
    }

    /// The frames of a message of `size` bytes.
    #[inline]
    pub fn totals(&self, size: u32) -> Totals {
        const SHORTEST: u64 = 60;
        let frame = |head: u32, payload: u32| {
            (u64::from(head) + u64::from(payload.next_multiple_of(4))).max(SHORTEST)
        };
        let [first, middle, last, only] = self.heads;
        let packets = self.mtu.packets(size);
        let mtu = self.mtu.bytes() as u32;
        let l2 = match packets {
            1 => frame(only, size),
            n => {
                let rest = size - mtu * (n - 1);
                frame(first, mtu) + u64::from(n - 2) * frame(middle, mtu) + frame(last, rest)
            }
        };
        Totals { packets, l2, l1: l2 + u64::from(packets) * L1_OVERHEAD as u64 }
    }
}

/// The packets of one message and their sums.
///
/// They are the packets that carry the payload: requests for SEND and WRITE, responses for READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    /// Packets of a message.
    pub packets: u32,
    /// The first, or only, packet.
    pub first: Packet,
    /// Each packet that is neither first nor last, where there are such.
    pub middle: Option<Packet>,
    /// The last of several packets.
    pub last: Option<Packet>,
    /// The request of a READ, which travels the other way.
    pub request: Option<Packet>,
    /// Payload of a message.
    pub payload_bytes: u64,
    /// Bytes of its frames without FCS.
    pub l2_bytes: u64,
    /// Bytes of line time it takes.
    pub l1_bytes: u64,
}

impl FlowPlan {
    /// Counts a message.
    pub fn new(m: Message) -> FlowPlan {
        let packets = m.mtu.packets(m.size);
        let mtu = m.mtu.bytes() as u32;
        let rest = m.size - mtu * (packets - 1);
        let [start, inner, end, only] = if m.datagram { datagram(m.verb) } else { opcodes(m.verb) };
        let (first, middle, last) = match packets {
            1 => (packet(m, only, m.size), None, None),
            2 => (packet(m, start, mtu), None, Some(packet(m, end, rest))),
            _ => (packet(m, start, mtu), Some(packet(m, inner, mtu)), Some(packet(m, end, rest))),
        };
        let sum = |part: fn(&Packet) -> u32| {
            let middles =
                u64::from(packets.saturating_sub(2)) * middle.as_ref().map_or(0, |p| u64::from(part(p)));
            u64::from(part(&first)) + middles + last.as_ref().map_or(0, |p| u64::from(part(p)))
        };
        FlowPlan {
            packets,
            first,
            middle,
            last,
            request: (m.verb == Verb::Read).then(|| packet(m, Opcode::RC_READ_REQUEST, 0)),
            payload_bytes: sum(|p| p.payload),
            l2_bytes: sum(|p| p.l2),
            l1_bytes: sum(|p| p.l1),
        }
    }

    /// The most of the line rate that payload can take, in per cent.
    pub fn ceiling_pct(&self) -> f64 {
        self.payload_bytes as f64 / self.l1_bytes as f64 * 100.0
    }
}

/// The opcodes of a first, middle, last and only packet with payload.  Those of an unreliable
/// connection have the same headers.
const fn opcodes(verb: Verb) -> [Opcode; 4] {
    match verb {
        Verb::Write => {
            [Opcode::RC_WRITE_FIRST, Opcode::RC_WRITE_MIDDLE, Opcode::RC_WRITE_LAST, Opcode::RC_WRITE_ONLY]
        }
        Verb::WriteImm => [
            Opcode::RC_WRITE_FIRST,
            Opcode::RC_WRITE_MIDDLE,
            Opcode::RC_WRITE_LAST_IMM,
            Opcode::RC_WRITE_ONLY_IMM,
        ],
        Verb::Send => {
            [Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST, Opcode::RC_SEND_ONLY]
        }
        Verb::SendImm => [
            Opcode::RC_SEND_FIRST,
            Opcode::RC_SEND_MIDDLE,
            Opcode::RC_SEND_LAST_IMM,
            Opcode::RC_SEND_ONLY_IMM,
        ],
        Verb::Read => [
            Opcode::RC_READ_RESP_FIRST,
            Opcode::RC_READ_RESP_MIDDLE,
            Opcode::RC_READ_RESP_LAST,
            Opcode::RC_READ_RESP_ONLY,
        ],
    }
}

/// A datagram is one packet, so only the last matters.
const fn datagram(verb: Verb) -> [Opcode; 4] {
    let opcode = if verb.has_imm() { Opcode::UD_SEND_ONLY_IMM } else { Opcode::UD_SEND_ONLY };
    [opcode; 4]
}

fn packet(m: Message, opcode: Opcode, payload: u32) -> Packet {
    let info = opcode.info().expect("opcodes() names only opcodes of the table");
    let l2 = frame_len(m.encapsulation, m.vlan, info, payload as usize) as u32;
    Packet { payload, l2, l1: l2 + L1_OVERHEAD as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(verb: Verb, size: u32, mtu: Mtu) -> FlowPlan {
        FlowPlan::new(Message {
            verb,
            size,
            mtu,
            encapsulation: Encapsulation::Ipv4,
            vlan: false,
            datagram: false,
        })
    }

    fn v6(verb: Verb, size: u32, mtu: Mtu) -> FlowPlan {
        FlowPlan::new(Message {
            verb,
            size,
            mtu,
            encapsulation: Encapsulation::Ipv6,
            vlan: false,
            datagram: false,
        })
    }

    /// The quick way to the sums is the long way's.
    #[test]
    fn totals_are_those_of_the_plan() {
        for encapsulation in [Encapsulation::Ipv4, Encapsulation::Ipv6, Encapsulation::Grh] {
            for (verb, vlan) in Verb::ALL.into_iter().flat_map(|v| [(v, false), (v, true)]) {
                for size in [0, 1, 3, 4, 255, 256, 257, 511, 512, 513, 1023, 4095, 4096, 4097, 100_000] {
                    let m = Message { verb, size, mtu: Mtu::B256, encapsulation, vlan, datagram: false };
                    let (plan, totals) = (FlowPlan::new(m), Frames::new(m).totals(size));
                    let want = Totals { packets: plan.packets, l2: plan.l2_bytes, l1: plan.l1_bytes };
                    assert_eq!(totals, want, "{m:?}");
                }
            }
        }
        let m = Message {
            verb: Verb::SendImm,
            size: 0,
            mtu: Mtu::B1024,
            encapsulation: Encapsulation::Ipv4,
            vlan: false,
            datagram: true,
        };
        assert_eq!(Frames::new(m).totals(1024).l2, FlowPlan::new(Message { size: 1024, ..m }).l2_bytes);
    }

    #[test]
    fn write_of_1_mib() {
        let p = plan(Verb::Write, 1 << 20, Mtu::B4096);
        assert_eq!(p.packets, 256);
        assert_eq!(p.first, Packet { payload: 4096, l2: 4170, l1: 4194 });
        assert_eq!(p.middle, Some(Packet { payload: 4096, l2: 4154, l1: 4178 }));
        assert_eq!(p.last, p.middle);
        assert_eq!((p.payload_bytes, p.l2_bytes, p.l1_bytes), (1_048_576, 1_063_440, 1_069_584));
        assert_eq!(format!("{:.2}", p.ceiling_pct()), "98.04");
    }

    #[test]
    fn send_of_1024_bytes() {
        let p = plan(Verb::Send, 1024, Mtu::B1024);
        assert_eq!((p.packets, p.first.l2, p.first.l1), (1, 1082, 1106));
        assert_eq!((p.middle, p.last, p.request), (None, None, None));
        assert_eq!(p.l1_bytes, 1106);
    }

    #[test]
    fn headers_of_every_verb() {
        // 14 + 20 + 8 + 12 + 4 = 58 B besides extension headers and payload.
        let only = |verb| plan(verb, 256, Mtu::B256).first.l2 - 58 - 256;
        assert_eq!(Verb::ALL.map(only), [16, 20, 0, 4, 4]);
        let ends = |verb| {
            let p = plan(verb, 600, Mtu::B256);
            (p.packets, p.first.l2 - 314, p.middle.unwrap().l2 - 314, p.last.unwrap().l2 - 58 - 88)
        };
        assert_eq!(
            Verb::ALL.map(ends),
            [(3, 16, 0, 0), (3, 16, 0, 4), (3, 0, 0, 0), (3, 0, 0, 4), (3, 4, 0, 4)]
        );
        assert_eq!(plan(Verb::Read, 600, Mtu::B256).request.unwrap().l2, 74);
    }

    #[test]
    fn datagrams_have_a_header_more() {
        let ud = |verb, size| {
            let m = Message {
                verb,
                size,
                mtu: Mtu::B1024,
                encapsulation: Encapsulation::Ipv4,
                vlan: false,
                datagram: true,
            };
            FlowPlan::new(m)
        };
        // DETH has 8 B, immediate data 4 B.
        assert_eq!(ud(Verb::Send, 1024).first, Packet { payload: 1024, l2: 1090, l1: 1114 });
        assert_eq!(ud(Verb::SendImm, 1024).first.l2, 1094);
        assert_eq!((ud(Verb::Send, 0).first.l2, ud(Verb::Send, 1).first.l2), (66, 70));
        assert_eq!((ud(Verb::Send, 1024).packets, ud(Verb::Send, 1024).request), (1, None));
    }

    #[test]
    fn pads_and_shortest_frames() {
        let send = |size| plan(Verb::Send, size, Mtu::B1024).first;
        assert_eq!(send(0), Packet { payload: 0, l2: 60, l1: 84 });
        assert_eq!(send(1), Packet { payload: 1, l2: 62, l1: 86 });
        assert_eq!(send(4).l2, 62);
        assert_eq!(send(5).l2, 66);
        assert_eq!(plan(Verb::Send, 0, Mtu::B1024).payload_bytes, 0);
        assert_eq!(plan(Verb::Send, 0, Mtu::B1024).ceiling_pct(), 0.0);
    }

    #[test]
    fn last_packets() {
        let last = |size| {
            let p = plan(Verb::Send, size, Mtu::B1024);
            (p.packets, p.last.map(|l| l.payload), p.payload_bytes)
        };
        assert_eq!(last(1024), (1, None, 1024));
        assert_eq!(last(1025), (2, Some(1), 1025));
        assert_eq!(last(2048), (2, Some(1024), 2048));
        assert_eq!(last(2049), (3, Some(1), 2049));
        assert_eq!(last(1 << 31), (1 << 21, Some(1024), 1 << 31));
    }

    #[test]
    fn sums_pass_32_bits() {
        let p = plan(Verb::Send, 1 << 31, Mtu::B256);
        assert_eq!(p.l1_bytes, (1 << 23) * (256 + 82));
        assert_eq!(plan(Verb::Write, 3 << 29, Mtu::B4096).payload_bytes, 3 << 29);
    }

    #[test]
    fn ipv6_and_tags() {
        assert_eq!(v6(Verb::Send, 1024, Mtu::B1024).first.l2, 1102);
        let tagged = Message {
            verb: Verb::Send,
            size: 0,
            mtu: Mtu::B1024,
            encapsulation: Encapsulation::Ipv4,
            vlan: true,
            datagram: false,
        };
        assert_eq!(FlowPlan::new(tagged).first.l2, 62);
    }

    #[test]
    fn no_packet_is_longer_than_the_check_of_the_port_allows() {
        let all = [(Encapsulation::Ipv4, 28), (Encapsulation::Ipv6, 48), (Encapsulation::Grh, 40)];
        for (encapsulation, headers) in all {
            for verb in Verb::ALL {
                let m = Message {
                    verb,
                    size: 4096,
                    mtu: Mtu::B4096,
                    encapsulation,
                    vlan: false,
                    datagram: false,
                };
                let l3 = FlowPlan::new(m).first.l2 - 14;
                assert!(
                    l3 <= 4096 + u32::from(crate::config::overhead(encapsulation != Encapsulation::Ipv4))
                );
                assert!(l3 >= 4096 + headers + 12 + 4);
            }
        }
    }
}

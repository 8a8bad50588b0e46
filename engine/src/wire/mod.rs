//! Frames: one file per header, the opcode table, the invariant CRC, the receive parser and the
//! transmit template.
//!
//! ```text
//! RoCEv2/IPv4:  Eth(14) [802.1Q(4)] IPv4(20) UDP(8) BTH(12) extension headers payload pad(0..3) iCRC(4)
//! RoCEv2/IPv6:  Eth(14) [802.1Q(4)] IPv6(40) UDP(8) BTH(12) extension headers payload pad       iCRC(4)
//! RoCEv1:       Eth(14) [802.1Q(4)] GRH(40)         BTH(12) extension headers payload pad       iCRC(4)
//! ```
//!
//! Frames are without the Ethernet FCS.  Receive: [`classify`] proves every length once and hands
//! out a [`Packet`], whose accessors then read at fixed offsets.  Transmit: a [`Template`] per
//! destination, [`Template::write`] per packet.  [`Parts`] takes a frame to
//! pieces and puts it together again byte for byte: for tests and tools, not for the fast path.

mod addr;
mod aeth;
mod atomic;
mod bth;
pub(crate) mod checksum;
mod deth;
mod drop_reason;
mod ecn;
mod ethernet;
mod feth;
pub mod icrc;
mod imm;
mod ipv4;
mod ipv6;
mod known;
mod opcode;
mod packet;
mod parse;
mod parts;
mod pause;
mod reth;
mod sack;
mod slot;
mod template;
mod udp;
mod xrceth;

pub use addr::{AddrError, Gid, MacAddr};
pub use aeth::{Aeth, AethKind, NakCode, Syndrome, credit_code, credits, rnr_delay};
pub use atomic::{AtomicAckEth, AtomicEth};
pub use bth::Bth;
pub use deth::Deth;
pub use drop_reason::DropReason;
pub use ecn::Ecn;
pub use ethernet::{Ethernet, Vlan};
pub use feth::Feth;
pub use icrc::{Encapsulation, IcrcPrefix, RunningIcrc};
pub use imm::{Ieth, ImmDt};
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use known::{Constant, CrcShift, PERIOD, Piece};
pub use opcode::{Class, Kind, Opcode, OpcodeInfo, PayloadRule, Position};
pub use packet::Packet;
pub use parse::{
    Checks, classify, classify_checks, classify_headers, classify_pieces, classify_rocev1,
    classify_rocev1_pieces, classify_with, dest_qp_of,
};
pub use parts::{Net, Parts};
pub use pause::{ETHERTYPE_MAC_CONTROL, PAUSE_ADDRESS, PRIORITIES, Pause, pause_time};
pub use reth::Reth;
pub use sack::SackBlock;
pub use slot::{Head, Payload, Slot, Tail};
pub use template::{Route, Stamp, Template, cnp, frame_len, source_port};
pub use udp::Udp;
pub use xrceth::{Rdeth, Xrceth};

/// The UDP destination port of RoCEv2, in both directions.
pub const UDP_PORT: u16 = 4791;
/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// EtherType of an 802.1Q tag.
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// EtherType of an 802.1ad service tag.
pub const ETHERTYPE_QINQ: u16 = 0x88A8;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86DD;
/// EtherType of RoCEv1.
pub const ETHERTYPE_ROCEV1: u16 = 0x8915;
/// IP protocol number of UDP.
pub const IP_PROTO_UDP: u8 = 17;
/// The GRH's next-header value before a BTH.
pub const GRH_NEXT_HEADER: u8 = 0x1B;
/// Bytes of the invariant CRC.
pub const ICRC_LEN: usize = 4;
/// Most header bytes before the payload of a frame: Ethernet, tag, IPv6, UDP, BTH and the largest
/// extension headers (XRCETH and AtomicETH).
pub const MAX_HEADERS: usize =
    Ethernet::LEN + Vlan::LEN + Ipv6::LEN + Udp::LEN + Bth::LEN + Xrceth::LEN + AtomicEth::LEN;
/// The smallest Ethernet frame, bytes without FCS; shorter ones are padded with zeros.
pub const MIN_FRAME: usize = 60;
/// Bytes that a frame takes on the wire besides its own: preamble 8, FCS 4, gap 12.
pub const L1_OVERHEAD: usize = 24;
/// The P_Key of the default partition, full member.
pub const DEFAULT_PKEY: u16 = 0xFFFF;
/// The Q_Key of QP 1.
pub const GSI_QKEY: u32 = 0x8001_0000;
/// Reserved bytes after the BTH of a CNP.
pub const CNP_RESERVED: usize = 16;

//! Why a frame was dropped: one list for all layers, so that one array counts everything.

use core::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Why a frame was dropped.  `as usize` is the index of its counter, below
        /// [`DropReason::COUNT`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[$doc])* $variant,)*
        }

        impl DropReason {
            /// All reasons, in the order of their index.
            pub const ALL: [DropReason; DropReason::COUNT] = [$(DropReason::$variant),*];
            /// The number of reasons.
            pub const COUNT: usize = [$($name),*].len();

            /// The counter's name, snake case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(DropReason::$variant => $name,)*
                }
            }
        }
    };
}

reasons! {
    /// Too short for the headers that it claims.
    Runt = "runt",
    /// Not RoCE: another EtherType, IP protocol or UDP port.
    NonRoce = "non_roce",
    /// A RoCEv1 frame: the peer uses a GID of the other type.
    Rocev1 = "rocev1_seen",
    /// A RoCEv2 frame at a port that speaks RoCEv1: the same the other way round.
    Rocev2 = "rocev2_seen",
    /// Two VLAN tags, or a VLAN that is not the port's.
    VlanMismatch = "vlan_mismatch",
    /// An IPv4 fragment.
    Fragment = "fragment",
    /// IP version or header length.
    BadIpHeader = "bad_ip_header",
    /// The IPv4 header checksum is wrong.
    IpChecksum = "ip_checksum",
    /// IP length, UDP length and frame length contradict each other.
    LengthMismatch = "length_mismatch",
    /// The UDP checksum is neither zero nor right.
    UdpChecksum = "udp_checksum",
    /// A reserved opcode.
    UnknownOpcode = "unknown_opcode",
    /// An opcode of a transport that nobody speaks over RoCE, or a special QP number without service.
    Unsupported = "unsupported",
    /// Headers, pad and iCRC do not fit, or the length is not a multiple of four.
    Malformed = "malformed",
    /// The transport header version is not 0.
    BadTver = "bad_tver",
    /// The invariant CRC is wrong.
    Icrc = "rx_icrc_errors",
    /// No such QP.
    NoQp = "no_qp",
    /// The QP's state takes no such packet.
    QpState = "qp_state",
    /// The opcode belongs to another transport than the QP.
    WrongTransport = "wrong_transport",
    /// The source or destination address is not the QP's.
    WrongAddress = "wrong_address",
    /// The P_Key does not match.
    PkeyMismatch = "pkey_mismatch",
    /// The Q_Key does not match.
    QkeyMismatch = "qkey_mismatch",
    /// A duplicate that needs no answer.
    DuplicateDropped = "duplicate_dropped",
    /// Ahead of the expected PSN, and the NAK was already sent.
    OutOfSequenceDropped = "out_of_sequence_dropped",
    /// An acknowledgement of a PSN that was never sent.
    GhostAck = "ghost_ack",
    /// A response to a request that is no longer outstanding.
    StaleResponse = "stale_response",
    /// No receive work request was posted, on a transport without RNR NAK.
    NoRecvWqe = "no_recv_wqe",
    /// Too long for the receive buffer or the MTU.
    LengthError = "length_error",
    /// Memory key, range or permission.
    AccessError = "access_error",
    /// It came to the wrong worker, and the ring to the right one was full.
    CrossingFull = "crossing_full",
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn index_and_name_are_unique() {
        for (i, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
            assert!(reason.name().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
        }
        let names: HashSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::COUNT);
    }
}

//! What a queue pair counts.

macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: u64,)*
        }

        impl $name {
            /// Names, in the order of [`Self::values`].
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            /// All values.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }

            /// Adds `other` to `self`, field by field.
            pub fn add(&mut self, other: &$name) {
                $(self.$field += other.$field;)*
            }

            /// What `self` has more than `earlier`.
            pub fn since(&self, earlier: &$name) -> $name {
                $name { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }
        }
    };
}

counters! {
    /// Counters of one queue pair.  Names that Linux RDMA has are Linux's.
    QpCounters {
        /// Packets sent that carry or ask for data, resent ones included.
        tx_data_packets,
        /// Payload bytes in them.
        tx_payload_bytes,
        /// PSNs sent for the first time; each ends in one of the next two, or is outstanding.
        psns_sent,
        /// PSNs acknowledged.
        psns_acked,
        /// PSNs given up because the queue pair went to error.
        psns_failed,
        /// Packets sent again by the requester.
        retransmits,
        /// ACKs sent.
        acks_sent,
        /// NAKs sent, RNR NAKs not included.
        naks_sent,
        /// RNR NAKs sent.
        rnr_naks_sent,
        /// Responses with data (READ, atomic) sent.
        tx_response_packets,
        /// New requests executed, in packets.
        rx_request_packets,
        /// Payload bytes of executed requests and accepted responses.
        rx_payload_bytes,
        /// READ and atomic response packets taken.
        rx_response_packets,
        /// ACKs taken that moved the window.
        acks_received,
        /// Responder: packets that came ahead of the expected PSN.
        out_of_sequence,
        /// Requester: sequence NAKs received.
        packet_seq_err,
        /// Responder: packets that came again.
        duplicate_request,
        /// Requester: READ and atomic responses that came again.
        duplicate_response,
        /// Requester: READ or atomic responses found lost by what came after them.
        implied_nak_seq_err,
        /// Requester: ack timeouts.
        local_ack_timeout_err,
        /// Requester: RNR NAKs received.
        rnr_nak_retry_err,
        /// Requester: messages that waited because the responder had no receive request for them.
        credit_waits,
        /// Responder: ACKs sent unasked to tell of receive requests, counted in `acks_sent` too.
        credit_updates_sent,
        /// Responder: requests refused for want of a receive request.
        out_of_buffer,
        /// Responder: requests answered with NAK 0x61.
        resp_invalid_request,
        /// Responder: requests answered with NAK 0x62.
        resp_remote_access_errors,
        /// Responder: requests answered with NAK 0x63.
        resp_local_op_errors,
        /// Requester: NAK 0x61 received.
        req_remote_invalid_request,
        /// Requester: NAK 0x62 received.
        req_remote_access_errors,
        /// Requester: NAK 0x63 received.
        req_remote_op_errors,
        /// Send requests that completed in error, flushes not included.
        req_cqe_error,
        /// Send requests flushed.
        req_cqe_flush_error,
        /// Receive requests that completed in error, flushes not included.
        resp_cqe_error,
        /// Receive requests flushed.
        resp_cqe_flush_error,
        /// READ requests executed.
        rx_read_requests,
        /// Atomic requests executed.
        rx_atomic_requests,
        /// Datagrams received with a wrong Q_Key.
        qkey_viol_cntr,
        /// Packets received with ECN congestion experienced.
        np_ecn_marked_roce_packets,
        /// CNPs sent.
        np_cnp_sent,
        /// CNPs received and acted on.
        rp_cnp_handled,
        /// CNPs received where nothing reacts to them: no congestion control.
        rp_cnp_ignored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_and_sum() {
        let mut a = QpCounters { acks_sent: 5, ..QpCounters::default() };
        let b = QpCounters { acks_sent: 3, naks_sent: 1, ..QpCounters::default() };
        assert_eq!(a.since(&b).acks_sent, 2);
        assert_eq!(a.since(&b).naks_sent, 0);
        a.add(&b);
        assert_eq!((a.acks_sent, a.naks_sent), (8, 1));
        assert_eq!(QpCounters::NAMES.len(), a.values().count());
    }
}

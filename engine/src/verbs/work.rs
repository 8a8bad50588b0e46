//! Work requests, and why one may be refused.

use crate::verbs::{Datagram, MrKey, QpState};

/// A piece of local memory: where a work request takes or puts its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Virtual address of the first byte.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// The local key of the memory region.
    pub lkey: MrKey,
}

/// What a send work request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND: the peer's next receive request takes the bytes.
    Send,
    /// SEND with 32 bits of immediate data.
    SendImm(u32),
    /// SEND that invalidates a key of the peer's after delivery.
    SendInv(MrKey),
    /// SEND of a datagram, the only operation of its queue pairs.
    Datagram(Datagram),
    /// RDMA WRITE to `raddr` under `rkey`.
    Write {
        /// The peer's virtual address.
        raddr: u64,
        /// The peer's key.
        rkey: MrKey,
    },
    /// RDMA WRITE that also completes a receive request of the peer's, with 32 bits.
    WriteImm {
        /// The peer's virtual address.
        raddr: u64,
        /// The peer's key.
        rkey: MrKey,
        /// The immediate data.
        imm: u32,
    },
    /// RDMA READ from `raddr` under `rkey` into local memory.
    Read {
        /// The peer's virtual address.
        raddr: u64,
        /// The peer's key.
        rkey: MrKey,
    },
    /// Atomic compare and swap of 8 bytes; the original value lands in local memory.
    CompareSwap {
        /// The peer's virtual address, a multiple of 8.
        raddr: u64,
        /// The peer's key.
        rkey: MrKey,
        /// Swapped in if memory holds this.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Atomic fetch and add of 8 bytes; the original value lands in local memory.
    FetchAdd {
        /// The peer's virtual address, a multiple of 8.
        raddr: u64,
        /// The peer's key.
        rkey: MrKey,
        /// What is added, modulo 2^64.
        add: u64,
    },
}

impl SendOp {
    /// Whether the peer answers with data: READ and atomics.
    #[inline]
    pub const fn is_read_or_atomic(&self) -> bool {
        matches!(self, SendOp::Read { .. } | SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. })
    }

    /// Whether the peer needs a receive request for it.
    #[inline]
    pub const fn takes_recv(&self) -> bool {
        matches!(
            self,
            SendOp::Send
                | SendOp::SendImm(_)
                | SendOp::SendInv(_)
                | SendOp::Datagram(_)
                | SendOp::WriteImm { .. }
        )
    }

    /// Whether local memory is written by the answer.
    #[inline]
    pub const fn writes_local(&self) -> bool {
        self.is_read_or_atomic()
    }
}

/// Flags of a send work request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// Complete it on the completion queue when it succeeds; an error always completes.
    pub signaled: bool,
    /// Ask the peer to raise a solicited event.
    pub solicited: bool,
    /// Wait for all earlier READs and atomics to complete.
    pub fence: bool,
}

/// A send work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp,
    /// Local bytes, source or sink.
    pub sge: Sge,
    /// Flags.
    pub flags: SendFlags,
}

/// A receive work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where a SEND's bytes go.
    pub sge: Sge,
}

/// Why a work request was not taken.  Nothing was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The queue holds as many requests as it was made for.
    #[error("the queue is full")]
    QueueFull,
    /// The state does not take this kind of request.
    #[error("the queue pair is in state {0:?}, which takes no such request")]
    State(QpState),
    /// Longer than the longest message, 2^31 bytes or the MTU of datagrams, or an atomic of other
    /// than 8 bytes.
    #[error("a length of {0} bytes is not possible for this operation")]
    Length(u32),
    /// The queue pair's type has no such operation, or it was connected with no READ depth.
    #[error("this queue pair has no such operation")]
    Unsupported,
    /// The queue pair made no such address handle since it was in RESET.
    #[error("this queue pair has no such address handle")]
    AddressHandle,
}

//! Completions and where they go.

use crate::units::Qpn;
use crate::verbs::Srqn;

/// How a work request ended.  The numbers are those of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompletionStatus {
    /// It was done.
    Success = 0,
    /// A length does not fit.
    LocLenErr = 1,
    /// Internal inconsistency or malformed request.
    LocQpOpErr = 2,
    /// The local key, range or right is wrong.
    LocProtErr = 4,
    /// Given up because the queue pair is in error.
    WrFlushErr = 5,
    /// The peer answered with something that makes no sense.
    BadRespErr = 7,
    /// Local access violation while receiving.
    LocAccessErr = 8,
    /// NAK 0x61, or a malformed request met a receive request.
    RemInvReqErr = 9,
    /// NAK 0x62.
    RemAccessErr = 10,
    /// NAK 0x63.
    RemOpErr = 11,
    /// The peer did not answer, `retry_cnt` times over.
    RetryExcErr = 12,
    /// The peer was not ready, `rnr_retry` times over.
    RnrRetryExcErr = 13,
}

impl CompletionStatus {
    /// The name that verbs gives it, without the prefix.
    pub const fn name(self) -> &'static str {
        match self {
            CompletionStatus::Success => "SUCCESS",
            CompletionStatus::LocLenErr => "LOC_LEN_ERR",
            CompletionStatus::LocQpOpErr => "LOC_QP_OP_ERR",
            CompletionStatus::LocProtErr => "LOC_PROT_ERR",
            CompletionStatus::WrFlushErr => "WR_FLUSH_ERR",
            CompletionStatus::BadRespErr => "BAD_RESP_ERR",
            CompletionStatus::LocAccessErr => "LOC_ACCESS_ERR",
            CompletionStatus::RemInvReqErr => "REM_INV_REQ_ERR",
            CompletionStatus::RemAccessErr => "REM_ACCESS_ERR",
            CompletionStatus::RemOpErr => "REM_OP_ERR",
            CompletionStatus::RetryExcErr => "RETRY_EXC_ERR",
            CompletionStatus::RnrRetryExcErr => "RNR_RETRY_EXC_ERR",
        }
    }
}

/// Which kind of request completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WcOpcode {
    /// A SEND of any form.
    Send,
    /// An RDMA WRITE of any form.
    RdmaWrite,
    /// An RDMA READ.
    RdmaRead,
    /// A compare and swap.
    CompareSwap,
    /// A fetch and add.
    FetchAdd,
    /// A receive request, by a SEND.
    Recv,
    /// A receive request, by a WRITE with immediate.
    RecvRdmaWithImm,
}

/// One completed work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// From the work request.
    pub wr_id: u64,
    /// How it ended; on error only this, `wr_id` and `qpn` mean anything.
    pub status: CompletionStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// Bytes moved: of the message for receives, of the request for sends.
    pub byte_len: u32,
    /// Immediate data of a receive.
    pub imm: Option<u32>,
    /// The key that the peer's SEND invalidated.
    pub invalidated: Option<u32>,
    /// The queue pair that sent it, of a received datagram.
    pub src_qp: Option<Qpn>,
    /// The first [`GRH_LEN`](crate::verbs::GRH_LEN) bytes of the buffer hold the network header;
    /// `byte_len` counts them.
    pub grh: bool,
    /// The peer asked for a solicited event.
    pub solicited: bool,
    /// The queue pair.
    pub qpn: Qpn,
}

/// What happens to a queue pair beside completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    /// The first valid request arrived while in RTR.
    CommEst,
    /// The send queue has drained (SQD).
    SqDrained,
    /// The queue pair went to ERR because of what the peer sent or did not send.
    Fatal(CompletionStatus),
    /// A queue pair in error has taken its last receive request from the shared queue, and
    /// completed what it had taken.
    LastWqeReached,
    /// A packet for the queue pair has left fewer requests in its shared receive queue than the
    /// limit that was armed.
    SrqLimit(Srqn),
    /// An RDMA WRITE message of the peer's was executed whole.  Verbs keeps quiet about
    /// these; a test endpoint wants to look at the bytes.
    WriteExecuted {
        /// Virtual address of the first byte.
        va: u64,
        /// Bytes of the message.
        len: u32,
    },
}

/// Where a queue pair puts its completions and events.
pub trait Completions {
    /// Takes one completion.
    fn complete(&mut self, completion: Completion);
    /// Takes one event.
    fn event(&mut self, qpn: Qpn, event: QpEvent);
}

/// A completion queue: completions and events in the order in which they happened.
#[derive(Debug)]
pub struct CompletionQueue {
    entries: Vec<CqEntry>,
    /// The oldest entry.  It goes back to 0 whenever the queue is empty, so that a queue that is
    /// emptied often stays in a few cache lines, however large it is.
    head: usize,
    capacity: usize,
    overflow: u64,
}

/// What a [`CompletionQueue`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CqEntry {
    /// A completion.
    Completion(Completion),
    /// An event of a queue pair.
    Event(Qpn, QpEvent),
}

impl CompletionQueue {
    /// A queue for `capacity` entries; it never grows.
    pub fn new(capacity: usize) -> CompletionQueue {
        CompletionQueue { entries: Vec::with_capacity(capacity), head: 0, capacity, overflow: 0 }
    }

    /// Makes room for `more` further entries.
    pub fn grow(&mut self, more: usize) {
        self.capacity += more;
        self.entries.reserve(self.capacity - self.entries.len());
    }

    /// Takes the oldest entry.
    #[inline]
    pub fn pop(&mut self) -> Option<CqEntry> {
        let entry = *self.entries.get(self.head)?;
        self.head += 1;
        if self.head == self.entries.len() {
            self.entries.clear();
            self.head = 0;
        }
        Some(entry)
    }

    /// The queue pair of the entry that comes `after` so many others.
    #[inline]
    pub(crate) fn ahead(&self, after: usize) -> Option<Qpn> {
        Some(match self.entries.get(self.head + after)? {
            CqEntry::Completion(done) => done.qpn,
            CqEntry::Event(qpn, _) => *qpn,
        })
    }

    /// Entries waiting.
    pub fn len(&self) -> usize {
        self.entries.len() - self.head
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries that found no room: an owner who lets this happen has lost completions.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// In place: an entry that was put together elsewhere would wait for its own stores.
    #[inline(always)]
    fn push(&mut self, entry: CqEntry) {
        if self.len() < self.capacity {
            if self.entries.len() == self.capacity {
                self.entries.drain(..self.head);
                self.head = 0;
            }
            self.entries.push(entry);
        } else {
            self.overflow += 1;
        }
    }
}

impl Completions for CompletionQueue {
    #[inline(always)]
    fn complete(&mut self, completion: Completion) {
        self.push(CqEntry::Completion(completion));
    }

    #[inline]
    fn event(&mut self, qpn: Qpn, event: QpEvent) {
        self.push(CqEntry::Event(qpn, event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_counted() {
        let mut cq = CompletionQueue::new(1);
        cq.event(Qpn::new(2), QpEvent::CommEst);
        cq.event(Qpn::new(2), QpEvent::SqDrained);
        assert_eq!((cq.len(), cq.overflow()), (1, 1));
        assert_eq!(cq.pop(), Some(CqEntry::Event(Qpn::new(2), QpEvent::CommEst)));
        assert!(cq.is_empty());
        // Never quite emptied, it stays within its room all the same.
        let mut cq = CompletionQueue::new(3);
        let room = cq.entries.capacity();
        cq.event(Qpn::new(0), QpEvent::CommEst);
        for i in 1..100 {
            cq.event(Qpn::new(i), QpEvent::CommEst);
            assert_eq!(cq.pop(), Some(CqEntry::Event(Qpn::new(i - 1), QpEvent::CommEst)));
        }
        assert_eq!((cq.len(), cq.overflow(), cq.entries.capacity()), (1, 0, room));
        let _ = cq.pop();
        assert!(cq.is_empty());
    }
}

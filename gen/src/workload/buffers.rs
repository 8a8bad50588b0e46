//! The message buffers of a queue pair: how many there are, and where.

use crate::config::{Flow, Transport, Verb};
use roce_engine::io::BURST;
use roce_engine::verbs::{GRH_LEN, MrKey, Srqn};

/// At least so many guard bytes lie between two buffers.
const GUARD_BYTES: u64 = 64;

/// Which side of a flow a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Posts the requests.
    Sender,
    /// The other one.
    Receiver,
}

impl Side {
    /// The other side.
    pub fn other(self) -> Side {
        match self {
            Side::Sender => Side::Receiver,
            Side::Receiver => Side::Sender,
        }
    }
}

/// Messages that a side of a flow has room for.
pub fn side_depth(flow: &Flow, side: Side) -> u32 {
    match side {
        Side::Sender => flow.depth,
        Side::Receiver => receive_depth(flow.transport, flow.depth),
    }
}

/// Messages that a receiver has room for.  Nothing holds an unreliable sender back: its receiver
/// takes up to a burst of messages before it looks at the first.
pub fn receive_depth(transport: Transport, depth: u32) -> u32 {
    if transport.is_reliable() { depth } else { depth.max(2 * BURST as u32) }
}

/// Bytes that one buffer of a side holds: a message, and what lies before a received datagram.
fn buffer_size(flow: &Flow, side: Side) -> u32 {
    flow.size + front(flow.transport, side)
}

/// Bytes before the message in a buffer.
pub fn front(transport: Transport, side: Side) -> u32 {
    match (transport, side) {
        (Transport::Ud, Side::Receiver) => GRH_LEN,
        _ => 0,
    }
}

/// What a receiving lane has in a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedReceives {
    /// The queue.
    pub srqn: Srqn,
    /// Receive requests that the lane posts there.
    pub entries: u32,
}

/// Message buffers of one side of a queue pair: `slots` of them, `stride` bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Virtual address of the first.
    pub va: u64,
    /// The key of their memory region.
    pub key: MrKey,
    /// How many.
    pub slots: u64,
    /// Bytes from one to the next.
    pub stride: u64,
}

impl Buffers {
    /// Bytes from one buffer of `size` bytes to the next; with a guard in between when it is
    /// to be verified.
    pub fn stride(size: u32, verify: bool) -> u64 {
        u64::from(size).next_multiple_of(64).max(64) + if verify { GUARD_BYTES } else { 0 }
    }

    /// Buffers that one side keeps: one for each outstanding message when every byte is to be
    /// verified, else one for all, as perftest does; one more for what READs read, so that no
    /// two READs into a buffer find the same bytes.
    pub fn slots(depth: u32, verify: bool, read_source: bool) -> u64 {
        match (verify, read_source) {
            (false, _) => 1,
            (true, false) => u64::from(depth),
            (true, true) => u64::from(depth) + 1,
        }
    }

    /// All bytes of it.
    pub fn len(&self) -> u64 {
        self.slots * self.stride
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address of the buffer that message `number` has.
    #[inline]
    pub(super) fn of(&self, number: u64) -> u64 {
        // A division is a long wait.
        if self.slots == 1 { self.va } else { self.at(number % self.slots) }
    }

    #[inline]
    pub(super) fn at(&self, slot: u64) -> u64 {
        self.va + slot * self.stride
    }
}

/// The buffers of one side by what they are for, all in one memory region.  Where a flow has one kind
/// of message, all three are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// What is sent and written, and what is written to.
    pub write: Buffers,
    /// What receive requests name.
    pub receive: Buffers,
    /// What is read, and what READs bring.
    pub read: Buffers,
}

impl Places {
    /// Of a flow with one kind of message.
    pub fn one(buffers: Buffers) -> Places {
        Places { write: buffers, receive: buffers, read: buffers }
    }

    /// Each that is not one of those before it.
    pub(super) fn each(&self) -> impl Iterator<Item = Buffers> {
        let [a, b, c] = [self.write, self.receive, self.read];
        let b = (b != a).then_some(b);
        let c = (c != a && Some(c) != b).then_some(c);
        [Some(a), b, c].into_iter().flatten()
    }
}

/// How the buffers of one side of a flow lie in their region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Buffers for what is written or sent, received, and read; 0 where there is no such message.
    slots: [u64; 3],
    stride: u64,
}

impl Layout {
    /// The layout of a side.
    pub fn of(flow: &Flow, side: Side) -> Layout {
        let reads = flow.traffic.has(|v| v == Verb::Read);
        let writes = flow.traffic.has(|v| matches!(v, Verb::Write | Verb::WriteImm));
        let sends = flow.traffic.has(|v| matches!(v, Verb::Send | Verb::SendImm));
        let has = match side {
            Side::Sender => [writes || sends, false, reads],
            Side::Receiver => [writes, sends, reads],
        };
        let slots = |read_source| Buffers::slots(side_depth(flow, side), flow.verify, read_source);
        let all = [slots(false), slots(false), slots(side == Side::Receiver)];
        let mut used = [0; 3];
        for ((used, has), slots) in used.iter_mut().zip(has).zip(all) {
            *used = if has { slots } else { 0 };
        }
        Layout { slots: used, stride: Buffers::stride(buffer_size(flow, side), flow.verify) }
    }

    /// Bytes of the region.
    pub fn bytes(&self) -> u64 {
        self.slots.iter().sum::<u64>() * self.stride
    }

    /// The buffers in the region `key`, which begins at `va`.
    pub fn places(&self, va: u64, key: MrKey) -> Places {
        let mut at = va;
        let parts = self.slots.map(|slots| {
            let part = Buffers { va: at, key, slots, stride: self.stride };
            at += part.len();
            (slots != 0).then_some(part)
        });
        // There is one kind of message at least.
        let any = parts.iter().flatten().next().copied();
        let any = any.unwrap_or(Buffers { va, key, slots: 1, stride: self.stride });
        // A WRITE with immediate data takes a receive request and leaves its buffer alone.
        let [write, receive, read] = parts.map(|part| part.unwrap_or(any));
        Places { write, receive, read }
    }
}

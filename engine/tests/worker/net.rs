//! Ports in memory whose frames a test decides over, one by one.

use arrayvec::ArrayVec;
use roce_engine::io::{BURST, Caps, Frame, FrameMut, PacketIo};
use roce_engine::units::Duration;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

const ROOM: usize = 4400;

/// Decides over a frame that port `from` sends: which ports get what.
type Judge = Box<dyn FnMut(usize, Vec<u8>) -> Vec<(usize, Vec<u8>)>>;

/// What joins the ports of a test.
#[derive(Clone)]
pub(crate) struct Net(Rc<RefCell<State>>);

struct State {
    arrived: Vec<VecDeque<Vec<u8>>>,
    /// Ports that take nothing.
    blocked: Vec<bool>,
    judge: Judge,
}

impl Net {
    pub(crate) fn new(
        ports: usize,
        judge: impl FnMut(usize, Vec<u8>) -> Vec<(usize, Vec<u8>)> + 'static,
    ) -> Net {
        Net(Rc::new(RefCell::new(State {
            arrived: vec![VecDeque::new(); ports],
            blocked: vec![false; ports],
            judge: Box::new(judge),
        })))
    }

    /// Port `index`; one whose link counts as lost after `patience`.
    pub(crate) fn port(&self, index: usize, patience: Option<Duration>) -> TestIo {
        TestIo { net: self.clone(), index, patience }
    }

    /// Puts a frame before a port.
    pub(crate) fn inject(&self, port: usize, frame: Vec<u8>) {
        self.0.borrow_mut().arrived[port].push_back(frame);
    }

    pub(crate) fn block(&self, port: usize, blocked: bool) {
        self.0.borrow_mut().blocked[port] = blocked;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().arrived.iter().all(VecDeque::is_empty)
    }
}

pub(crate) struct TestIo {
    net: Net,
    index: usize,
    patience: Option<Duration>,
}

impl fmt::Debug for TestIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestIo({})", self.index)
    }
}

#[derive(Debug)]
pub(crate) struct Bytes {
    bytes: Vec<u8>,
    len: usize,
}

impl Frame for Bytes {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl FrameMut for Bytes {
    fn buf(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn set_len(&mut self, len: usize) {
        self.len = len;
    }
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl PacketIo for TestIo {
    type Rx = Bytes;
    type Tx = Bytes;

    fn recv(&mut self, out: &mut ArrayVec<Bytes, BURST>) -> usize {
        let queue = &mut self.net.0.borrow_mut().arrived[self.index];
        let n = queue.len().min(out.remaining_capacity());
        out.extend(queue.drain(..n).map(|bytes| Bytes { len: bytes.len(), bytes }));
        n
    }

    fn alloc(&mut self, _reach: usize) -> Option<Bytes> {
        // Old bytes, as in frames that were used before.
        Some(Bytes { bytes: vec![0xEE; ROOM], len: 0 })
    }

    fn send(&mut self, batch: &mut ArrayVec<Bytes, BURST>) -> usize {
        let mut state = self.net.0.borrow_mut();
        if state.blocked[self.index] {
            return 0;
        }
        let n = batch.len();
        for mut frame in batch.drain(..) {
            frame.bytes.truncate(frame.len);
            for (to, bytes) in (state.judge)(self.index, frame.bytes) {
                state.arrived[to].push_back(bytes);
            }
        }
        n
    }

    fn caps(&self) -> Caps {
        Caps { max_frame: ROOM, speed_bps: None, headers_only: false }
    }

    fn patience(&self) -> Option<Duration> {
        self.patience
    }
}

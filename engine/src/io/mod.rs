//! Ports and clocks: where frames come from and go to, and what time it is.

mod clock;
#[cfg(feature = "dpdk")]
pub mod dpdk;
mod frames;
pub mod impaired;
pub mod link;
pub mod mem;
pub mod pcap;

pub use clock::{Clock, MonotonicClock};
pub use frames::{BURST, Caps, Frame, FrameMut, PacketIo};

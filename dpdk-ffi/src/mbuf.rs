//! A frame in a buffer of DPDK.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;

use arrayvec::ArrayVec;
use dpdk_sys as sys;

use crate::{Errno, SharedBytes};

/// A frame.  Owns its buffer, which goes back to its pool on drop.
///
/// Fresh from a [`Supply`](crate::Supply) or from
/// [`Mempool::alloc_bulk`](crate::Mempool::alloc_bulk) it is empty: write into
/// [`Mbuf::room_mut`], then [`Mbuf::set_len`].  A received frame may be a chain of
/// segments if the port scatters; most methods see the first one and say so.
// The burst functions pass arrays of `Mbuf` as arrays of `rte_mbuf *`.
#[repr(transparent)]
pub struct Mbuf(NonNull<sys::rte_mbuf>);

// SAFETY: an Mbuf is the only owner of its buffer, and pools take buffers back from any thread.
unsafe impl Send for Mbuf {}

/// What the port found out about the IPv4 header checksum of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumState {
    /// The port did not look.
    Unknown,
    /// Right.
    Good,
    /// Wrong.
    Bad,
    /// Wrong in the frame, but the port vouches for the header.
    NotPresent,
}

impl Mbuf {
    /// The bytes of the first segment: all of the frame if [`Mbuf::is_contiguous`].
    #[inline]
    pub fn data(&self) -> &[u8] {
        let m = self.as_ptr();
        // SAFETY: driver and set_len keep data_off + data_len within the buffer; `self` owns it.
        unsafe { std::slice::from_raw_parts(self.data_start(), usize::from(sys::mbuf_data_len(m))) }
    }

    /// The bytes of the first segment, to be changed in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let m = self.as_ptr();
        // SAFETY: as in `data`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data_start(), usize::from(sys::mbuf_data_len(m))) }
    }

    /// Whether the frame is one segment.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        // SAFETY: `self` owns a valid mbuf.
        unsafe { sys::mbuf_nb_segs(self.as_ptr()) == 1 }
    }

    /// Length of the frame in bytes over all segments, without FCS.
    #[inline]
    pub fn pkt_len(&self) -> usize {
        // SAFETY: `self` owns a valid mbuf.
        unsafe { sys::mbuf_pkt_len(self.as_ptr()) as usize }
    }

    /// All bytes from the start of the data to the end of the (first) buffer.
    /// What lies behind the current length is left over from earlier frames.
    #[inline]
    pub fn room_mut(&mut self) -> &mut [u8] {
        // SAFETY: the room ends with the buffer, whose memory was mapped as zeros; access is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data_start(), self.room()) }
    }

    /// Bytes from the start of the data to the end of the (first) buffer.
    #[inline]
    pub fn room(&self) -> usize {
        let m = self.as_ptr();
        // SAFETY: `self` owns a valid mbuf.
        let (len, off) = unsafe { (sys::mbuf_buf_len(m), sys::mbuf_data_off(m)) };
        usize::from(len.saturating_sub(off))
    }

    /// Brings the bytes of the (first) segment near: they will be read soon.
    #[inline]
    pub fn fetch_data(&self) {
        // SAFETY: `self` owns a valid mbuf; a fetch has no effect on what memory holds.
        unsafe { sys::rdpdk_fetch_data(self.as_ptr()) }
    }

    /// Sets the length of the frame in bytes.
    ///
    /// # Panics
    /// If `n` is more than [`Mbuf::room`], or the frame has several segments.
    #[inline]
    pub fn set_len(&mut self, n: usize) {
        assert!(n <= self.room(), "frame of {n} B in a buffer of {} B", self.room());
        assert!(self.is_contiguous(), "length of a frame of several segments");
        // SAFETY: `n` fits in the one segment, so in u16 as well; `&mut self` makes the access exclusive.
        unsafe { sys::mbuf_set_len(self.as_ptr(), n as u16) }
    }

    /// The tag control information of a VLAN tag that the port took off.
    #[inline]
    pub fn vlan_stripped(&self) -> Option<u16> {
        let m = self.as_ptr();
        // SAFETY: `self` owns a valid mbuf.
        let (flags, tci) = unsafe { (sys::mbuf_ol_flags(m), sys::mbuf_vlan_tci(m)) };
        (flags & sys::RDPDK_RX_VLAN_STRIPPED != 0).then_some(tci)
    }

    /// What the port says about the IPv4 header checksum.
    #[inline]
    pub fn rx_ipv4_checksum(&self) -> ChecksumState {
        // SAFETY: `self` owns a valid mbuf.
        let flags = unsafe { sys::mbuf_ol_flags(self.as_ptr()) };
        match flags & sys::RDPDK_RX_IP_CKSUM_MASK {
            sys::RDPDK_RX_IP_CKSUM_GOOD => ChecksumState::Good,
            sys::RDPDK_RX_IP_CKSUM_BAD => ChecksumState::Bad,
            sys::RDPDK_RX_IP_CKSUM_NONE => ChecksumState::NotPresent,
            _ => ChecksumState::Unknown,
        }
    }

    /// Makes a frame of three segments: this one, `range` of `bytes`, which are not copied, and
    /// `tail`.  `middle` is used up for the second segment; what it holds is lost.
    ///
    /// Only for ports that take segments and have no need of physical addresses.
    ///
    /// # Panics
    /// If one of the three has several segments, `range` is not within `bytes` or longer than a
    /// segment can be, or `middle` is not of the pool that keeps `bytes`.
    #[inline]
    pub fn chain(&mut self, middle: Mbuf, bytes: &SharedBytes, range: Range<usize>, tail: Mbuf) {
        let part = &bytes.as_slice()[range];
        let len = u16::try_from(part.len()).expect("a segment has at most 65,535 bytes");
        assert!(
            self.is_contiguous() && middle.is_contiguous() && tail.is_contiguous(),
            "a chain of segments within a chain"
        );
        // SAFETY: `middle` is a valid mbuf.
        let pool = unsafe { sys::rdpdk_mbuf_pool(middle.as_ptr()) };
        assert!(bytes.is_kept_by(pool), "bytes that another pool keeps");
        let (middle, tail) = (ManuallyDrop::new(middle), ManuallyDrop::new(tail));
        // SAFETY: all three are owned here and become one frame, which owns what they owned.  The
        // pool of `middle` keeps the bytes until it has all of its buffers back.
        unsafe {
            sys::rdpdk_mbuf_chain(self.as_ptr(), middle.as_ptr(), part.as_ptr().cast(), len, tail.as_ptr());
        }
    }

    /// The bytes of the second and the third segment of a frame that has three.
    #[inline]
    pub fn middle_and_tail(&self) -> Option<[&[u8]; 2]> {
        // SAFETY: `self` owns the chain; a segment other than the last has a next one, and data_off
        // and data_len of each lie within what it points to.
        unsafe {
            if sys::mbuf_nb_segs(self.as_ptr()) != 3 {
                return None;
            }
            let middle = sys::rdpdk_mbuf_next(self.as_ptr());
            let tail = sys::rdpdk_mbuf_next(middle);
            Some([middle, tail].map(|m| {
                let start = sys::mbuf_buf_addr(m).add(usize::from(sys::mbuf_data_off(m)));
                std::slice::from_raw_parts(start, usize::from(sys::mbuf_data_len(m)))
            }))
        }
    }

    /// Gathers all segments in the first one.
    ///
    /// # Errors
    /// If the first buffer is too small; the frame is unchanged then.
    pub fn linearize(&mut self) -> Result<(), Errno> {
        // SAFETY: `self` owns the chain; the call frees segments that only the chain reached.
        let rc = unsafe { sys::rdpdk_mbuf_linearize(self.as_ptr()) };
        // The only failure is too little room, reported as -1.
        if rc == 0 { Ok(()) } else { Err(Errno::from_return(libc::ENOBUFS)) }
    }

    /// Copies the frame, all segments, as far as `out` reaches; returns how
    /// many bytes were written.
    pub fn copy_to(&self, out: &mut [u8]) -> usize {
        let room = u32::try_from(out.len()).unwrap_or(u32::MAX);
        // SAFETY: the chain is valid while `self` lives, and at most `room` bytes of `out` are written.
        unsafe { sys::rdpdk_mbuf_copy(self.as_ptr(), out.as_mut_ptr(), room) as usize }
    }

    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut sys::rte_mbuf {
        self.0.as_ptr()
    }

    #[inline(always)]
    fn data_start(&self) -> *mut u8 {
        let m = self.as_ptr();
        // SAFETY: `self` owns a valid mbuf, whose data_off lies within its buffer.
        unsafe { sys::mbuf_buf_addr(m).add(usize::from(sys::mbuf_data_off(m))) }
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `self` owns the mbuf and is gone after this; a pool outlives its mbufs (see `mempool`).
        unsafe { sys::rdpdk_mbuf_free(self.as_ptr()) }
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbuf")
            .field("pkt_len", &self.pkt_len())
            .field("contiguous", &self.is_contiguous())
            .finish_non_exhaustive()
    }
}

/// Drops all frames of `v` in one call, which is cheaper than one by one.
#[inline]
pub fn free_bulk<const N: usize>(v: &mut ArrayVec<Mbuf, N>) {
    let n = v.len();
    let frames = v.as_mut_ptr().cast::<*mut sys::rte_mbuf>();
    // SAFETY: Mbuf is transparent over the pointer; with length 0 set first, each is freed once.
    unsafe {
        v.set_len(0);
        sys::rte_pktmbuf_free_bulk(frames, n as u32);
    }
}

/// Lets `fill` write up to `n` mbufs into the free tail of `out` and takes
/// over as many as it returns.  No more than fit are asked for.
///
/// # Safety
/// `fill(slots, n)` writes valid mbufs that nobody else owns to the first k of
/// `n` slots and returns k.
#[inline(always)]
pub(crate) unsafe fn extend<const N: usize>(
    out: &mut ArrayVec<Mbuf, N>,
    n: usize,
    fill: impl FnOnce(*mut *mut sys::rte_mbuf, usize) -> usize,
) -> usize {
    let len = out.len();
    let n = n.min(N - len);
    // SAFETY: `len <= N`, so the slots are within the array; the caller vouches for the first `got` of them.
    unsafe {
        let slots = out.as_mut_ptr().add(len).cast::<*mut sys::rte_mbuf>();
        let got = fill(slots, n);
        debug_assert!(got <= n);
        out.set_len(len + got);
        got
    }
}

/// Forgets the first `n` frames of `batch`, whose owner is now somebody else,
/// and moves the rest to the front in order.
///
/// # Safety
/// `n` is at most the length, and the first `n` mbufs have another owner.
#[inline(always)]
pub(crate) unsafe fn forget_front<const N: usize>(batch: &mut ArrayVec<Mbuf, N>, n: usize) {
    let rest = batch.len() - n;
    let start = batch.as_mut_ptr();
    // SAFETY: both ranges are within the initialised part; no element is dropped or kept twice.
    unsafe {
        batch.set_len(0);
        std::ptr::copy(start.add(n), start, rest);
        batch.set_len(rest);
    }
}

//! Memory regions, their keys and rights.

use crate::wire::{Constant, CrcShift, Payload};
use core::fmt;
use core::ops::{BitOr, Range};
use std::sync::Arc;

/// A key of a memory region: local and remote key are one number, as on most hardware.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct MrKey(pub u32);

impl fmt::Debug for MrKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MrKey({:#010x})", self.0)
    }
}

/// A protection domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pd(pub u32);

/// Rights on a memory region, or of the peer on a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Local read only.
    pub const NONE: Access = Access(0);
    /// The owner may have bytes put there.
    pub const LOCAL_WRITE: Access = Access(1);
    /// A peer may write.
    pub const REMOTE_WRITE: Access = Access(2);
    /// A peer may read.
    pub const REMOTE_READ: Access = Access(4);
    /// A peer may do atomics.
    pub const REMOTE_ATOMIC: Access = Access(8);
    /// All of them.
    pub const ALL: Access = Access(15);

    /// The rights that are in both.
    #[inline]
    pub const fn intersection(self, other: Access) -> Access {
        Access(self.0 & other.0)
    }

    /// Whether every right of `other` is in `self`.
    #[inline]
    pub const fn contains(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Access {
    type Output = Access;
    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// Why an access was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// No region has this key (now).
    #[error("no memory region has this key")]
    Key,
    /// The region belongs to another protection domain.
    #[error("the memory region belongs to another protection domain")]
    Domain,
    /// The region does not grant the right.
    #[error("the memory region does not grant this access")]
    Right,
    /// The range is not inside the region.
    #[error("the range is not inside the memory region")]
    Range,
}

/// Why a region was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// 2^20 regions exist.
    #[error("no more than 2^20 memory regions are possible")]
    TooMany,
    /// Address plus length passes the end of the address space.
    #[error("address plus length passes the end of the address space")]
    Range,
    /// Remote write or atomic needs local write.
    #[error("remote write and atomic access need local write access")]
    Rights,
    /// The bytes could not be had.
    #[error("{0} bytes of memory could not be had")]
    OutOfMemory(usize),
}

/// What registering returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    /// Virtual address of the first byte.
    pub va: u64,
    /// Bytes.
    pub len: usize,
    /// Local and remote key.
    pub key: MrKey,
}

/// The memory of an endpoint: all its regions.
///
/// Keys are a keyed permutation of (slot, random part), so that neither a
/// neighbour's key nor the next one can be told from a key.
///
/// The regions of a hollow memory have addresses, lengths, rights and keys as any other, but hardly
/// any bytes: whatever range is asked for, the same few come.  It is for ports that carry headers
/// only, see [`Caps::headers_only`](crate::io::Caps::headers_only).
#[derive(Debug)]
pub struct Memory {
    hollow: bool,
    regions: Vec<Region>,
    free: Vec<u32>,
    secret: u64,
    random: u64,
    next_va: u64,
    /// What constant regions share that are summed in pieces of one length.
    shift: Option<Arc<CrcShift>>,
}

#[derive(Debug)]
struct Region {
    key: u32,
    live: bool,
    pd: Pd,
    access: Access,
    va: u64,
    len: usize,
    /// Bytes that are there.
    kept: usize,
    start: usize,
    bytes: Box<[u8]>,
    /// Instead of `bytes` where they never change.
    constant: Option<Constant>,
}

const SLOT_BITS: u32 = 20;
const CACHE_LINE: usize = 64;
const VA_GAP: u64 = 1 << 21;
/// Bytes of a region of a hollow memory: enough for an atomic.
const HOLLOW: usize = 8;

impl Memory {
    /// An endpoint without regions; `secret` keys the permutation and the random parts.
    pub fn new(secret: u64) -> Memory {
        Memory {
            hollow: false,
            shift: None,
            regions: Vec::new(),
            free: Vec::new(),
            secret,
            random: secret ^ 0x9E37_79B9_7F4A_7C15,
            next_va: 0x10_0000_0000,
        }
    }

    /// A memory whose regions have hardly any bytes.
    pub fn hollow(secret: u64) -> Memory {
        Memory { hollow: true, ..Memory::new(secret) }
    }

    /// Registers `len` zeroed bytes at the next free address.
    pub fn register(&mut self, pd: Pd, len: usize, access: Access) -> Result<MemoryRegion, RegisterError> {
        let va = self.next_va;
        let region = self.register_at(pd, va, len, access)?;
        let end =
            va.checked_add(len as u64).and_then(|e| e.checked_add(VA_GAP)).ok_or(RegisterError::Range)?;
        self.next_va = end.next_multiple_of(VA_GAP);
        Ok(region)
    }

    /// Registers `len` zeroed bytes that peers see at `va`.
    pub fn register_at(
        &mut self,
        pd: Pd,
        va: u64,
        len: usize,
        access: Access,
    ) -> Result<MemoryRegion, RegisterError> {
        if va.checked_add(len as u64).is_none() {
            return Err(RegisterError::Range);
        }
        let remote_writes = [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC];
        if remote_writes.into_iter().any(|a| access.contains(a)) && !access.contains(Access::LOCAL_WRITE) {
            return Err(RegisterError::Rights);
        }
        let slot = match self.free.last() {
            Some(&slot) => slot,
            None if self.regions.len() < 1 << SLOT_BITS => self.regions.len() as u32,
            None => return Err(RegisterError::TooMany),
        };
        let kept = if self.hollow { len.min(HOLLOW) } else { len };
        let mut backing = Vec::new();
        let room = kept.checked_add(CACHE_LINE).ok_or(RegisterError::OutOfMemory(len))?;
        backing.try_reserve_exact(room).map_err(|_| RegisterError::OutOfMemory(len))?;
        backing.resize(room, 0u8);
        let bytes = backing.into_boxed_slice();
        let start = bytes.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE);
        let previous = self.regions.get(slot as usize).map(|r| r.key);
        let key = loop {
            let random = self.next_random() as u32 >> SLOT_BITS;
            let key = permute(random << SLOT_BITS | slot, self.secret);
            if Some(key) != previous {
                break key;
            }
        };
        let region = Region { key, live: true, pd, access, va, len, kept, start, bytes, constant: None };
        if self.free.pop().is_some() {
            self.regions[slot as usize] = region;
        } else {
            self.regions.push(region);
        }
        Ok(MemoryRegion { va, len, key: MrKey(key) })
    }

    /// Takes the region away; its key is dead from now on.
    pub fn deregister(&mut self, key: MrKey) -> Result<(), AccessError> {
        let slot = self.slot(key)?;
        let region = &mut self.regions[slot];
        region.live = false;
        region.bytes = Box::default();
        region.constant = None;
        region.start = 0;
        region.len = 0;
        region.kept = 0;
        self.free.push(slot as u32);
        Ok(())
    }

    /// Takes the region away at a peer's wish, who must be in `pd`.
    pub fn invalidate(&mut self, pd: Pd, key: MrKey) -> Result<(), AccessError> {
        let slot = self.slot(key)?;
        if self.regions[slot].pd != pd {
            return Err(AccessError::Domain);
        }
        self.deregister(key)
    }

    /// Makes the bytes of the region constant: nobody may write there from now on, and the CRC of
    /// each `piece` bytes of them is known, so that sending them takes no look at them.
    pub fn freeze(&mut self, key: MrKey, piece: usize) -> Result<(), AccessError> {
        let slot = self.slot(key)?;
        let region = &mut self.regions[slot];
        region.access = region.access.intersection(Access::REMOTE_READ);
        if region.constant.is_none() && !self.hollow {
            let shift = match &self.shift {
                Some(shift) if shift.len() == piece => shift,
                _ => self.shift.insert(Arc::new(CrcShift::new(piece))),
            };
            region.constant =
                Some(Constant::new(&region.bytes[region.start..region.start + region.len], shift));
            region.bytes = Box::default();
            region.start = 0;
        }
        Ok(())
    }

    /// The bytes that a peer in `pd` may read, to be sent to it.
    #[inline]
    pub fn remote_source(&self, pd: Pd, key: MrKey, va: u64, len: u32) -> Result<Payload<'_>, AccessError> {
        let (slot, at) = self.remote_at(pd, key, va, len, Access::REMOTE_READ)?;
        Ok(self.regions[slot].payload(at, len as usize))
    }

    /// The bytes of `va .. va + len` for the owner.
    #[inline]
    pub fn local(&self, key: MrKey, va: u64, len: u32) -> Result<&[u8], AccessError> {
        let region = &self.regions[self.slot(key)?];
        let range = region.range(va, len)?;
        Ok(&region.stored()[range])
    }

    /// The bytes of `va .. va + len` for the owner to change.
    #[inline]
    pub fn local_mut(&mut self, key: MrKey, va: u64, len: u32) -> Result<&mut [u8], AccessError> {
        let slot = self.slot(key)?;
        let region = &mut self.regions[slot];
        if !region.access.contains(Access::LOCAL_WRITE) {
            return Err(AccessError::Right);
        }
        let range = region.range(va, len)?;
        Ok(&mut region.bytes[range])
    }

    /// The bytes of `va .. va + len` that a queue pair in `pd` sends.
    #[inline(always)]
    pub fn source(&self, pd: Pd, key: MrKey, va: u64, len: u32) -> Result<Payload<'_>, AccessError> {
        let region = &self.regions[self.slot(key)?];
        if region.pd != pd {
            return Err(AccessError::Domain);
        }
        let range = region.range(va, len)?;
        Ok(region.payload(range, len as usize))
    }

    /// The bytes of `va .. va + len` that a queue pair in `pd` receives into.
    #[inline]
    pub fn sink(&mut self, pd: Pd, key: MrKey, va: u64, len: u32) -> Result<&mut [u8], AccessError> {
        let slot = self.slot(key)?;
        if self.regions[slot].pd != pd {
            return Err(AccessError::Domain);
        }
        self.local_mut(key, va, len)
    }

    /// Fills a region that the owner itself may not write through a queue pair.
    pub fn fill(&mut self, key: MrKey, fill: impl FnOnce(&mut [u8])) -> Result<(), AccessError> {
        let slot = self.slot(key)?;
        let region = &mut self.regions[slot];
        if region.constant.is_some() {
            return Err(AccessError::Right);
        }
        fill(&mut region.bytes[region.start..region.start + region.kept]);
        Ok(())
    }

    /// Whether a peer in `pd` may do `access` on `va .. va + len`.
    #[inline]
    pub fn check_remote(
        &self,
        pd: Pd,
        key: MrKey,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<(), AccessError> {
        self.remote_at(pd, key, va, len, access).map(|_| ())
    }

    /// The bytes that a peer in `pd` may read.
    #[inline]
    pub fn remote(&self, pd: Pd, key: MrKey, va: u64, len: u32) -> Result<&[u8], AccessError> {
        let (slot, range) = self.remote_at(pd, key, va, len, Access::REMOTE_READ)?;
        Ok(&self.regions[slot].stored()[range])
    }

    /// The bytes that a peer in `pd` may do `access` on, to change.
    #[inline]
    pub fn remote_mut(
        &mut self,
        pd: Pd,
        key: MrKey,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<&mut [u8], AccessError> {
        let (slot, range) = self.remote_at(pd, key, va, len, access)?;
        Ok(&mut self.regions[slot].bytes[range])
    }

    #[inline(always)]
    fn remote_at(
        &self,
        pd: Pd,
        key: MrKey,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<(usize, Range<usize>), AccessError> {
        let slot = self.slot(key)?;
        let region = &self.regions[slot];
        if region.pd != pd {
            return Err(AccessError::Domain);
        }
        if !region.access.contains(access) {
            return Err(AccessError::Right);
        }
        Ok((slot, region.range(va, len)?))
    }

    /// The entry of the region that the key names, to fetch it ahead.
    #[inline]
    pub fn region(&self, key: MrKey) -> Option<&impl Sized> {
        self.regions.get((unpermute(key.0, self.secret) & ((1 << SLOT_BITS) - 1)) as usize)
    }

    #[inline(always)]
    fn slot(&self, key: MrKey) -> Result<usize, AccessError> {
        let slot = (unpermute(key.0, self.secret) & ((1 << SLOT_BITS) - 1)) as usize;
        match self.regions.get(slot) {
            Some(r) if r.live && r.key == key.0 => Ok(slot),
            _ => Err(AccessError::Key),
        }
    }

    /// SplitMix64.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl Region {
    #[inline(always)]
    fn stored(&self) -> &[u8] {
        match &self.constant {
            Some(constant) => constant.bytes(),
            None => &self.bytes,
        }
    }

    #[inline(always)]
    fn payload(&self, range: Range<usize>, len: usize) -> Payload<'_> {
        match self.constant.as_ref().and_then(|c| c.piece(range.start, len)) {
            Some(piece) => Payload { bytes: &[], len, piece: Some(piece) },
            None => Payload { bytes: &self.stored()[range], len, piece: None },
        }
    }

    /// Where `va .. va + len` lies in `bytes`.
    #[inline(always)]
    fn range(&self, va: u64, len: u32) -> Result<Range<usize>, AccessError> {
        let offset = va.checked_sub(self.va).ok_or(AccessError::Range)?;
        let end = offset.checked_add(u64::from(len)).ok_or(AccessError::Range)?;
        if end > self.len as u64 {
            return Err(AccessError::Range);
        }
        let (offset, len) = (offset as usize, len as usize);
        if self.kept == self.len {
            return Ok(self.start + offset..self.start + offset + len);
        }
        Ok(self.start..self.start + len.min(self.kept))
    }
}

/// A permutation of 32-bit words keyed by `secret`.  It hides which bits are the slot; what makes keys
/// hard to guess is the random part of the word.  Undone for every packet: in few steps.
#[inline]
fn permute(word: u32, secret: u64) -> u32 {
    let half = |x: u32| x ^ x >> 16;
    let inner = half((word ^ secret as u32).wrapping_mul(MULTIPLIERS[0]));
    half((inner ^ (secret >> 32) as u32).wrapping_mul(MULTIPLIERS[1]))
}

/// Undoes [`permute`].
#[inline]
fn unpermute(word: u32, secret: u64) -> u32 {
    let half = |x: u32| x ^ x >> 16;
    let inner = half(word).wrapping_mul(INVERSES[1]) ^ (secret >> 32) as u32;
    half(inner).wrapping_mul(INVERSES[0]) ^ secret as u32
}

/// Odd, so that each has an inverse.
const MULTIPLIERS: [u32; 2] = [0x9E37_79B1, 0x85EB_CA6B];
const INVERSES: [u32; 2] = [inverse(MULTIPLIERS[0]), inverse(MULTIPLIERS[1])];

/// By Newton's method: each step doubles the bits that are right.
const fn inverse(odd: u32) -> u32 {
    let mut x = odd;
    let mut step = 0;
    while step < 4 {
        x = x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn memory() -> (Memory, MemoryRegion) {
        let mut memory = Memory::new(7);
        let mr = memory.register_at(Pd(1), 0x1_0000, 0x1_0000, Access::ALL).unwrap();
        (memory, mr)
    }

    #[test]
    fn s14_ranges_that_wrap_are_refused() {
        let (mut memory, mr) = memory();
        let check = |va, len| memory.check_remote(Pd(1), mr.key, va, len, Access::REMOTE_WRITE);
        assert_eq!(check(0x1_0000, 0x1_0000), Ok(()));
        assert_eq!(check(0x1_FFFF, 1), Ok(()));
        assert_eq!(check(0x2_0000, 0), Ok(()));
        for (va, len) in [(0xFFFF_FFFF_FFFF_FF00, 0x200), (0x1_FFFF, 2), (0xFFFF, 1), (0x2_0001, 0)] {
            assert_eq!(check(va, len), Err(AccessError::Range), "{va:#x}+{len:#x}");
        }
        assert_eq!(memory.register_at(Pd(1), u64::MAX, 2, Access::ALL), Err(RegisterError::Range));
    }

    #[test]
    fn rights_domain_and_key() {
        let (mut memory, mr) = memory();
        let read_only = memory.register(Pd(1), 64, Access::REMOTE_READ).unwrap();
        let write = |m: &Memory, pd, key| m.check_remote(pd, key, read_only.va, 8, Access::REMOTE_WRITE);
        assert_eq!(write(&memory, Pd(1), read_only.key), Err(AccessError::Right));
        assert_eq!(write(&memory, Pd(2), read_only.key), Err(AccessError::Domain));
        assert_eq!(write(&memory, Pd(1), MrKey(mr.key.0 ^ 1)), Err(AccessError::Key));
        assert_eq!(memory.local_mut(read_only.key, read_only.va, 1).unwrap_err(), AccessError::Right);
        assert_eq!(memory.source(Pd(1), read_only.key, read_only.va, 64).unwrap().bytes, [0; 64]);
        assert_eq!(memory.source(Pd(2), read_only.key, read_only.va, 1).err(), Some(AccessError::Domain));
        assert_eq!(memory.sink(Pd(1), read_only.key, read_only.va, 1), Err(AccessError::Right));
        assert_eq!(memory.sink(Pd(2), mr.key, mr.va, 1), Err(AccessError::Domain));
        assert_eq!(memory.sink(Pd(1), mr.key, mr.va, 1).unwrap(), [0]);
        assert_eq!(memory.register(Pd(1), 1, Access::REMOTE_WRITE).unwrap_err(), RegisterError::Rights);
    }

    #[test]
    fn a_dead_key_stays_dead() {
        let (mut memory, mr) = memory();
        memory.deregister(mr.key).unwrap();
        assert_eq!(memory.local(mr.key, mr.va, 1), Err(AccessError::Key));
        assert_eq!(memory.deregister(mr.key), Err(AccessError::Key));
        let next = memory.register_at(Pd(1), 0x1_0000, 16, Access::ALL).unwrap();
        assert_ne!(next.key, mr.key);
        assert_eq!(memory.local(mr.key, mr.va, 1), Err(AccessError::Key));
        assert_eq!(memory.local(next.key, next.va, 16).unwrap(), [0; 16]);
    }

    #[test]
    fn x01_seventy_thousand_keys() {
        let mut memory = Memory::new(0x1234_5678_9ABC_DEF0);
        let keys: Vec<u32> =
            (0..70_000).map(|_| memory.register(Pd(0), 1, Access::ALL).unwrap().key.0).collect();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        let steps: HashSet<u32> = keys.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
        assert!(steps.len() > 69_000, "{} different steps", steps.len());
        assert!(keys.iter().all(|k| memory.local(MrKey(*k), 0, 0) != Err(AccessError::Key)));
        let hits = (0..1_000u32).filter(|i| memory.slot(MrKey(i.wrapping_mul(0x9E37_79B1))).is_ok()).count();
        assert!(hits < 5, "{hits} of 1000 guesses hit");
    }

    #[test]
    fn permutation_undone() {
        for secret in [0, 1, u64::MAX, 0xDEAD_BEEF_0123] {
            for word in (0..10_000u32).map(|i| i.wrapping_mul(0x9E37_79B1)) {
                assert_eq!(unpermute(permute(word, secret), secret), word);
            }
        }
    }

    #[test]
    fn a_frozen_region_is_read_only() {
        let mut memory = Memory::new(7);
        let mr = memory.register_at(Pd(1), 0x1_0000, 2500, Access::ALL).unwrap();
        memory.fill(mr.key, |b| b.iter_mut().enumerate().for_each(|(i, b)| *b = i as u8)).unwrap();
        memory.freeze(mr.key, 1024).unwrap();
        let expected: Vec<u8> = (0..2500).map(|i| i as u8).collect();
        assert_eq!(memory.local(mr.key, mr.va, 2500).unwrap(), expected);
        assert_eq!(memory.local_mut(mr.key, mr.va, 1).unwrap_err(), AccessError::Right);
        assert_eq!(memory.fill(mr.key, |_| ()).unwrap_err(), AccessError::Right);
        for access in [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
            assert_eq!(memory.check_remote(Pd(1), mr.key, mr.va, 8, access), Err(AccessError::Right));
        }
        assert_eq!(memory.remote(Pd(1), mr.key, mr.va + 5, 3).unwrap(), [5, 6, 7]);
        let known = |va, len| memory.source(Pd(1), mr.key, mr.va + va, len).unwrap().piece.is_some();
        assert_eq!(
            (known(0, 1024), known(1024, 1024), known(2048, 452), known(1, 1024)),
            (true, true, false, false)
        );
        let whole = memory.remote_source(Pd(1), mr.key, mr.va + 1024, 1024).unwrap();
        assert_eq!(whole.piece.unwrap().bytes(), &expected[1024..2048]);
        memory.deregister(mr.key).unwrap();
        assert_eq!(memory.local(mr.key, mr.va, 1), Err(AccessError::Key));
    }

    #[test]
    fn a_hollow_region_is_as_long_and_as_well_guarded() {
        let mut memory = Memory::hollow(7);
        let mr = memory.register(Pd(1), 1 << 40, Access::ALL).unwrap();
        let end = mr.va + (1 << 40);
        assert_eq!(memory.check_remote(Pd(1), mr.key, end - 4096, 4096, Access::REMOTE_WRITE), Ok(()));
        assert_eq!(
            memory.check_remote(Pd(1), mr.key, end - 4095, 4096, Access::REMOTE_WRITE),
            Err(AccessError::Range)
        );
        let word = memory.remote_mut(Pd(1), mr.key, mr.va + 64, 8, Access::REMOTE_ATOMIC).unwrap();
        word.copy_from_slice(&[5; 8]);
        assert_eq!(memory.local(mr.key, end - 8, 8).unwrap(), [5; 8]);
        assert!(memory.local(mr.key, mr.va, 1 << 20).unwrap().len() <= 8);
    }

    #[test]
    fn regions_start_on_a_cache_line() {
        let (memory, mr) = memory();
        let bytes = memory.local(mr.key, mr.va, 64).unwrap();
        assert_eq!(bytes.as_ptr() as usize % CACHE_LINE, 0);
    }
}

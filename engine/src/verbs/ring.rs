//! A queue of fixed capacity with stable positions.

/// A first-in first-out queue that never grows.
///
/// Positions are running numbers: position `p` stays valid until it is popped,
/// however much is pushed behind it.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    slots: Box<[Option<T>]>,
    mask: u32,
    capacity: u32,
    head: u32,
    tail: u32,
}

impl<T> Ring<T> {
    /// A ring that holds `capacity` items.
    pub(crate) fn new(capacity: u32) -> Ring<T> {
        let size = if capacity == 0 { 0 } else { capacity.next_power_of_two() };
        Ring {
            slots: (0..size).map(|_| None).collect(),
            mask: size.wrapping_sub(1),
            capacity,
            head: 0,
            tail: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The position of the oldest item.
    #[inline]
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Gives the item back when the ring is full.
    #[inline(always)]
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        if self.is_full() {
            return Err(item);
        }
        self.slots[(self.tail & self.mask) as usize] = Some(item);
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let item = self.slots[(self.head & self.mask) as usize].take();
        self.head = self.head.wrapping_add(1);
        item
    }

    /// Leaves out the oldest item, which need not be moved for that.
    #[inline]
    pub(crate) fn skip(&mut self)
    where
        T: Copy,
    {
        if !self.is_empty() {
            self.head = self.head.wrapping_add(1);
        }
    }

    /// The item at `position`, when it has been pushed and not popped.
    #[inline]
    pub(crate) fn get(&self, position: u32) -> Option<&T> {
        if position.wrapping_sub(self.head) >= self.len() {
            return None;
        }
        self.slots[(position & self.mask) as usize].as_ref()
    }

    /// As [`Ring::get`], to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, position: u32) -> Option<&mut T> {
        if position.wrapping_sub(self.head) >= self.len() {
            return None;
        }
        self.slots[(position & self.mask) as usize].as_mut()
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        self.get(self.head)
    }

    #[inline]
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_its_capacity_and_no_more() {
        let mut ring = Ring::new(3);
        for i in 0..3 {
            assert_eq!(ring.push(i), Ok(()));
        }
        assert_eq!(ring.push(9), Err(9));
        assert_eq!((ring.len(), ring.capacity(), ring.is_full()), (3, 3, true));
        assert_eq!(ring.pop(), Some(0));
        assert_eq!(ring.push(3), Ok(()));
        assert_eq!((ring.head(), ring.len()), (1, 3));
        assert_eq!((1..4).map(|p| *ring.get(p).unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(ring.get(0), None);
        assert_eq!(ring.get(4), None);
        assert_eq!(ring.get(u32::MAX), None);
    }

    #[test]
    fn positions_wrap() {
        let mut ring = Ring::new(2);
        ring.head = u32::MAX;
        ring.tail = u32::MAX;
        ring.push('a').unwrap();
        ring.push('b').unwrap();
        assert_eq!((ring.get(u32::MAX), ring.get(0), ring.get(1)), (Some(&'a'), Some(&'b'), None));
        assert_eq!((ring.pop(), ring.pop(), ring.pop()), (Some('a'), Some('b'), None));
    }

    #[test]
    fn of_no_capacity() {
        let mut ring = Ring::new(0);
        assert_eq!(ring.push(1), Err(1));
        assert_eq!((ring.pop(), ring.front()), (None, None));
    }
}

//! The 24-bit numbers of the transport: PSN, MSN and QPN.
//!
//! PSN and MSN are circular: they have named comparisons and no `Ord`.

use core::fmt;

const MASK: u32 = 0x00FF_FFFF;

macro_rules! u24 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(u32);

        impl $name {
            /// From the low 24 bits of `value`.
            #[inline]
            pub const fn new(value: u32) -> $name {
                $name(value & MASK)
            }

            /// The value, below 2^24.
            #[inline]
            pub const fn get(self) -> u32 {
                self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#08x})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#08x}", self.0)
            }
        }
    };
}

macro_rules! circular {
    ($name:ident) => {
        impl $name {
            /// `self + n`, modulo 2^24.
            #[inline]
            #[must_use]
            pub const fn plus(self, n: u32) -> $name {
                $name(self.0.wrapping_add(n) & MASK)
            }

            /// `self - n`, modulo 2^24.
            #[inline]
            #[must_use]
            pub const fn minus(self, n: u32) -> $name {
                $name(self.0.wrapping_sub(n) & MASK)
            }

            /// How far `other` lies ahead of `self`: -2^23 ..= 2^23-1; negative when it lies behind.
            #[inline]
            pub const fn distance_to(self, other: $name) -> i32 {
                (other.0.wrapping_sub(self.0) << 8) as i32 >> 8
            }

            /// Whether `self` lies behind `other`.
            #[inline]
            pub const fn is_before(self, other: $name) -> bool {
                self.distance_to(other) > 0
            }

            /// Whether `self` lies ahead of `other`.
            #[inline]
            pub const fn is_after(self, other: $name) -> bool {
                other.is_before(self)
            }
        }
    };
}

u24! {
    /// Packet sequence number: 24 bits, circular.
    Psn
}
u24! {
    /// Message sequence number: 24 bits, circular.
    Msn
}
u24! {
    /// Queue pair number: 24 bits.
    Qpn
}
circular!(Psn);
circular!(Msn);

impl Qpn {
    /// QP 0, subnet management: has no meaning on RoCE.
    pub const SMI: Qpn = Qpn(0);
    /// QP 1, general services: connection management.
    pub const GSI: Qpn = Qpn(1);
    /// The destination of multicast packets.
    pub const MULTICAST: Qpn = Qpn(MASK);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_across_the_wrap() {
        let a = Psn::new(0xFF_FFFE);
        let b = a.plus(3);
        assert_eq!(b.get(), 1);
        assert_eq!(a.distance_to(b), 3);
        assert_eq!(b.distance_to(a), -3);
        assert!(a.is_before(b) && b.is_after(a) && !a.is_before(a));
        assert_eq!(b.minus(3), a);
    }

    #[test]
    fn half_the_circle() {
        let a = Psn::new(5);
        assert_eq!(a.distance_to(a.plus((1 << 23) - 1)), (1 << 23) - 1);
        assert_eq!(a.distance_to(a.plus(1 << 23)), -(1 << 23));
        // Exactly opposite: neither lies before the other.
        assert!(!a.plus(1 << 23).is_before(a) && !a.is_before(a.plus(1 << 23)));
    }

    #[test]
    fn keeps_24_bits() {
        assert_eq!(Psn::new(0xFFFF_FFFF).get(), 0xFF_FFFF);
        assert_eq!(Psn::new(0).minus(1).get(), 0xFF_FFFF);
        assert_eq!(format!("{:?} {}", Psn::new(0x12), Qpn::new(0x12)), "Psn(0x000012) 0x000012");
    }
}

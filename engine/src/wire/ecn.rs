//! The two explicit-congestion bits.

/// The low two bits of the IPv4 TOS or the IPv6 traffic class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not understand marks.
    NotEct = 0,
    /// ECN-capable, code point 1.
    Ect1 = 1,
    /// ECN-capable, code point 0: what data carries when congestion control is on.
    Ect0 = 2,
    /// Congestion was experienced: the receiver notifies the sender.
    Ce = 3,
}

impl Ecn {
    /// From a TOS or traffic-class byte.
    #[inline]
    pub const fn of_tos(tos: u8) -> Ecn {
        match tos & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// `tos` with these two bits.
    #[inline]
    #[must_use]
    pub const fn in_tos(self, tos: u8) -> u8 {
        tos & !3 | self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        for tos in 0..=u8::MAX {
            assert_eq!(Ecn::of_tos(tos) as u8, tos & 3);
            assert_eq!(Ecn::of_tos(tos).in_tos(tos), tos);
            assert_eq!(Ecn::Ce.in_tos(tos), tos | 3);
        }
    }
}

//! Addresses of the wire: MAC and GID.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An Ethernet MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All zeros: no address.
    pub const ZERO: MacAddr = MacAddr([0; 6]);
    /// All ones: every station.
    pub const BROADCAST: MacAddr = MacAddr([0xFF; 6]);

    /// Whether the group bit is set (broadcast included).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether it is all zeros.
    pub const fn is_zero(self) -> bool {
        matches!(self.0, [0, 0, 0, 0, 0, 0])
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(bytes: [u8; 6]) -> MacAddr {
        MacAddr(bytes)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddr {
    type Err = AddrError;

    /// Six groups of two hexadecimal digits with `:` between them all, or `-`.
    fn from_str(text: &str) -> Result<MacAddr, AddrError> {
        let wrong = || AddrError::Mac(text.to_string());
        let bytes: &[u8; 17] = text.as_bytes().try_into().map_err(|_| wrong())?;
        let separator = bytes[2];
        if separator != b':' && separator != b'-' {
            return Err(wrong());
        }
        let mut mac = [0; 6];
        for (i, octet) in mac.iter_mut().enumerate() {
            if i > 0 && bytes[3 * i - 1] != separator {
                return Err(wrong());
            }
            let digit = |at: usize| char::from(bytes[at]).to_digit(16).ok_or_else(wrong);
            *octet = (digit(3 * i)? << 4 | digit(3 * i + 1)?) as u8;
        }
        Ok(MacAddr(mac))
    }
}

/// A RoCE GID: an IPv6 address, or an IPv4 address a.b.c.d as `::ffff:a.b.c.d`.
///
/// The family decides the encapsulation: an IPv4-mapped GID travels in an IPv4 header.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid([u8; 16]);

impl Gid {
    /// From its 16 bytes in network order.
    pub const fn new(bytes: [u8; 16]) -> Gid {
        Gid(bytes)
    }

    /// Its 16 bytes in network order.
    pub const fn bytes(&self) -> [u8; 16] {
        self.0
    }

    /// Whether it is an IPv4-mapped address.
    #[inline]
    pub fn is_ipv4(&self) -> bool {
        self.0[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]
    }

    /// The IP address that it stands for.
    pub fn to_ip(&self) -> IpAddr {
        if self.is_ipv4() { IpAddr::V4(self.low32().into()) } else { IpAddr::V6(Ipv6Addr::from(self.0)) }
    }

    /// The last four bytes: the IPv4 address of an IPv4-mapped GID.
    pub(super) fn low32(&self) -> [u8; 4] {
        [self.0[12], self.0[13], self.0[14], self.0[15]]
    }
}

impl From<[u8; 4]> for Gid {
    #[inline]
    fn from([a, b, c, d]: [u8; 4]) -> Gid {
        Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, a, b, c, d])
    }
}

impl From<Ipv4Addr> for Gid {
    fn from(ip: Ipv4Addr) -> Gid {
        Gid::from(ip.octets())
    }
}

impl From<Ipv6Addr> for Gid {
    fn from(ip: Ipv6Addr) -> Gid {
        Gid(ip.octets())
    }
}

impl From<IpAddr> for Gid {
    fn from(ip: IpAddr) -> Gid {
        match ip {
            IpAddr::V4(ip) => ip.into(),
            IpAddr::V6(ip) => ip.into(),
        }
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_ip().fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({self})")
    }
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddrError {
    /// Not a MAC address.
    #[error("`{0}` is not a MAC address (want six hex pairs such as 02:00:00:00:00:01)")]
    Mac(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_text() {
        let mac = MacAddr([0x02, 0x52, 0, 0xAB, 0xCD, 0xEF]);
        assert_eq!(mac.to_string(), "02:52:00:ab:cd:ef");
        assert_eq!("02:52:00:AB:cd:ef".parse(), Ok(mac));
        assert_eq!("02-52-00-ab-cd-ef".parse(), Ok(mac));
        for wrong in [
            "",
            "02:52:00:ab:cd",
            "02:52:00:ab:cd:ef:00",
            "02:52-00:ab:cd:ef",
            "02.52.00.ab.cd.ef",
            "02:52:00:ab:cd:eg",
            "2:52:00:ab:cd:ef0",
            "+2:52:00:ab:cd:ef",
            "025200abcdef",
            " 2:52:00:ab:cd:ef",
        ] {
            assert_eq!(wrong.parse::<MacAddr>(), Err(AddrError::Mac(wrong.to_string())));
        }
    }

    #[test]
    fn mac_kinds() {
        assert!(MacAddr::ZERO.is_zero() && !MacAddr::ZERO.is_multicast());
        assert!(MacAddr::BROADCAST.is_multicast() && !MacAddr::BROADCAST.is_zero());
        assert!(MacAddr([0x33, 0x33, 0, 0, 0, 1]).is_multicast());
        assert!(!MacAddr([0x02, 0, 0, 0, 0, 1]).is_multicast());
    }

    #[test]
    fn gid_of_both_families() {
        let v4: IpAddr = "198.18.0.1".parse().unwrap();
        let v6: IpAddr = "2001:2::2".parse().unwrap();
        assert!(Gid::from(v4).is_ipv4() && !Gid::from(v6).is_ipv4());
        assert_eq!(Gid::from(v4).bytes(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 198, 18, 0, 1]);
        assert_eq!([Gid::from(v4).to_ip(), Gid::from(v6).to_ip()], [v4, v6]);
        let mapped: Ipv6Addr = "::ffff:198.18.0.1".parse().unwrap();
        assert_eq!(Gid::from(mapped), Gid::from(v4));
        assert_eq!(format!("{:?} {}", Gid::from(v6), Gid::from(v4)), "Gid(2001:2::2) 198.18.0.1");
    }
}

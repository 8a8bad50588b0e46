//! Service identifiers, and the addresses that travel in a request's private data.

use crate::wire::Gid;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is asked for: the name of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(pub u64);

/// The port spaces of `librdmacm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum PortSpace {
    /// Reliable connections.
    Tcp = 0x0106,
    /// Datagrams.
    Udp = 0x0111,
}

impl ServiceId {
    /// The service that listens on `port` of a port space.
    pub const fn new(space: PortSpace, port: u16) -> ServiceId {
        ServiceId((space as u64) << 16 | port as u64)
    }

    /// The port, if the service is one of this port space.
    pub fn port_in(self, space: PortSpace) -> Option<u16> {
        let port = self.0 as u16;
        (self == ServiceId::new(space, port)).then_some(port)
    }
}

/// Why the header of the private data is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CmaError {
    /// Another version of the header.
    #[error("the address header has version {0}, not 0")]
    Version(u8),
    /// Neither IPv4 nor IPv6.
    #[error("the address header has IP version {0}, neither 4 nor 6")]
    IpVersion(u8),
}

/// The header before a consumer's private data in a request: who calls whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmaHeader {
    /// Port of the caller.
    pub port: u16,
    /// Address of the caller.
    pub src: IpAddr,
    /// Address that is called.
    pub dst: IpAddr,
}

impl CmaHeader {
    /// Bytes of the header.
    pub const LEN: usize = 36;

    /// From the first bytes of a request's private data.
    ///
    /// # Errors
    /// [`CmaError`].
    pub fn parse(private: &[u8; CmaHeader::LEN]) -> Result<CmaHeader, CmaError> {
        if private[0] != 0 {
            return Err(CmaError::Version(private[0]));
        }
        let is_ipv4 = match private[1] >> 4 {
            4 => true,
            6 => false,
            other => return Err(CmaError::IpVersion(other)),
        };
        let address = |at: usize| -> IpAddr {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&private[at..at + 16]);
            if is_ipv4 {
                Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15]).into()
            } else {
                Ipv6Addr::from(bytes).into()
            }
        };
        let port = u16::from_be_bytes([private[2], private[3]]);
        Ok(CmaHeader { port, src: address(4), dst: address(20) })
    }

    /// The header's bytes; those of the version of the two addresses, which must be one.
    pub fn emit(&self) -> [u8; CmaHeader::LEN] {
        let mut out = [0; CmaHeader::LEN];
        out[1] = if self.src.is_ipv4() { 0x40 } else { 0x60 };
        out[2..4].copy_from_slice(&self.port.to_be_bytes());
        for (at, ip) in [(4, self.src), (20, self.dst)] {
            match ip {
                IpAddr::V4(ip) => out[at + 12..at + 16].copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) => out[at..at + 16].copy_from_slice(&ip.octets()),
            }
        }
        out
    }

    /// The GIDs of caller and called.
    pub fn gids(&self) -> (Gid, Gid) {
        (self.src.into(), self.dst.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_ports_of_a_space() {
        let rping = ServiceId::new(PortSpace::Tcp, 7174);
        assert_eq!(rping.0, 0x0000_0000_0106_1C06);
        assert_eq!(rping.port_in(PortSpace::Tcp), Some(7174));
        assert_eq!(rping.port_in(PortSpace::Udp), None);
        assert_eq!(ServiceId(0x1C06).port_in(PortSpace::Tcp), None);
    }

    #[test]
    fn addresses_of_both_versions_come_back() {
        for (src, dst) in [("198.18.0.3", "198.18.0.2"), ("2001:2::3", "2001:2::2")] {
            let header = CmaHeader { port: 45678, src: src.parse().unwrap(), dst: dst.parse().unwrap() };
            assert_eq!(CmaHeader::parse(&header.emit()), Ok(header));
            assert_eq!(header.gids().0.to_ip(), header.src);
            let mut bytes = header.emit();
            bytes[1] = 0x50;
            assert_eq!(CmaHeader::parse(&bytes), Err(CmaError::IpVersion(5)));
            bytes[0] = 1;
            assert_eq!(CmaHeader::parse(&bytes), Err(CmaError::Version(1)));
        }
    }
}

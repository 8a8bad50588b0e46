//! Error numbers as DPDK returns them.

use std::fmt;

/// A positive error number: one of the operating system or one of DPDK's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

impl Errno {
    /// The operation is not supported by the driver.
    pub const NOT_SUPPORTED: Self = Self(libc::ENOTSUP);

    /// From a return code that is negative on failure.
    pub(crate) fn from_return(rc: i32) -> Self {
        Self(rc.checked_abs().unwrap_or(i32::MAX))
    }

    /// From `rte_errno` of the calling thread.
    pub(crate) fn last() -> Self {
        // SAFETY: reads a thread-local variable of DPDK.
        Self(unsafe { dpdk_sys::rdpdk_errno() })
    }

    /// The number itself.
    pub fn raw(self) -> i32 {
        self.0
    }

    /// Ok for 0 and above, which DPDK also uses for counts.
    pub(crate) fn check(rc: i32) -> Result<i32, Self> {
        if rc < 0 { Err(Self::from_return(rc)) } else { Ok(rc) }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("no reason given"),
            1001 => f.write_str("not allowed in a secondary process (E_RTE_SECONDARY)"),
            1002 => f.write_str("the EAL does not run (E_RTE_NO_CONFIG)"),
            number => write!(f, "{}", std::io::Error::from_raw_os_error(number)),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({}: {self})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_text() {
        assert_eq!(Errno::from_return(-1).to_string(), "Operation not permitted (os error 1)");
        assert_eq!(Errno::from_return(-libc::ENOTSUP), Errno::NOT_SUPPORTED);
        assert!(Errno(1001).to_string().contains("E_RTE_SECONDARY"));
        assert_eq!(Errno(0).to_string(), "no reason given");
        assert_eq!(Errno::from_return(i32::MIN).raw(), i32::MAX);
        assert_eq!(Errno::check(3), Ok(3));
        assert_eq!(Errno::check(-22).map_err(Errno::raw), Err(22));
    }
}

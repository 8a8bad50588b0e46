//! How DPDK is to be started, and the arguments that say so.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use super::{EalError, MemoryKind};

/// How to start DPDK.  The default serves virtual ports on any machine, as any
/// user: no PCI devices, hugepages if there are enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EalConfig {
    /// Whether DPDK's memory is in hugepages.
    pub hugepages: Hugepages,
    /// DPDK's memory in MiB.  With hugepages it is what is there from the start, and
    /// more is taken as needed.  Without, DPDK may use twice as much, since it then
    /// sets room aside as if no buffer crossed a page of 4 KiB; of that it touches no
    /// more than it needs.
    pub memory_mib: usize,
    /// Which PCI devices DPDK may look at.
    pub pci: PciAccess,
    /// Virtual devices to add, as for [`Eal::attach`](super::Eal::attach).
    pub vdevs: Vec<String>,
    /// Name that tells DPDK processes apart; unique if `None`.
    pub file_prefix: Option<String>,
    /// Which of DPDK's messages go to standard error.
    pub log_level: LogLevel,
    /// Arguments for the EAL after all others.
    pub extra_args: Vec<String>,
}

impl Default for EalConfig {
    fn default() -> Self {
        Self {
            hugepages: Hugepages::Auto,
            memory_mib: 256,
            pci: PciAccess::None,
            vdevs: Vec::new(),
            file_prefix: None,
            log_level: LogLevel::Quiet,
            extra_args: Vec::new(),
        }
    }
}

/// Whether DPDK's memory is in hugepages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Hugepages {
    /// If enough are free, otherwise normal pages.
    #[default]
    Auto,
    /// Normal pages: enough for virtual ports, not for a network card.
    Never,
    /// An error if too few are free.
    Require,
}

/// Which PCI devices DPDK may look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum PciAccess {
    /// None: the bus is not scanned.
    #[default]
    None,
    /// Those at these addresses, such as `0000:3b:00.0`.
    Allow(Vec<String>),
    /// All that are bound to a driver that DPDK can use.
    Scan,
}

/// Which of DPDK's messages go to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum LogLevel {
    /// None; warnings and errors are kept for error texts.
    #[default]
    Quiet,
    /// Errors.
    Error,
    /// And warnings.
    Warning,
    /// And what is normal but significant.
    Notice,
    /// And information.
    Info,
    /// Everything.
    Debug,
}

impl LogLevel {
    /// The number in rte_log.h.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Error => 4,
            Self::Quiet | Self::Warning => 5,
            Self::Notice => 6,
            Self::Info => 7,
            Self::Debug => 8,
        }
    }
}

impl EalConfig {
    /// Checks what DPDK would report badly or not at all.
    pub(super) fn check(&self) -> Result<(), EalError> {
        let bad = |what, value: &str, problem| Err(EalError::Config { what, value: value.into(), problem });
        if self.memory_mib == 0 || self.memory_mib > 1 << 20 {
            return bad("memory", &format!("{} MiB", self.memory_mib), "is not between 1 MiB and 1 TiB");
        }
        if let Some(prefix) = &self.file_prefix {
            // DPDK's limit is 64 with the directory; and it becomes part of a path.
            if prefix.is_empty() || prefix.len() > 40 || prefix.contains(['/', '%']) {
                return bad("file prefix", prefix, "is not a name of 1 to 40 bytes without `/` and `%`");
            }
        }
        if let PciAccess::Allow(list) = &self.pci
            && list.is_empty()
        {
            return bad("PCI devices", "[]", "is an empty list");
        }
        Ok(())
    }
}

/// The command line for the EAL, program name first.
pub(super) fn arguments(cfg: &EalConfig, memory: &MemoryKind, cpus: &[usize]) -> Vec<String> {
    let mut args = vec!["rocegen".to_owned()];
    // One lcore that may run wherever the process may: the caller is not pinned.
    args.push(format!("--lcores=0@({})", ranges(cpus)));
    let memory_mib = match memory {
        MemoryKind::Hugepages { .. } => cfg.memory_mib,
        MemoryKind::NoHuge { .. } => 2 * cfg.memory_mib,
    };
    args.extend(["--no-telemetry".into(), "-m".into(), memory_mib.to_string()]);
    args.push(format!("--file-prefix={}", cfg.file_prefix.clone().unwrap_or_else(unique_prefix)));
    match memory {
        // Implies --no-shconf, and needs no hugetlbfs to be mounted.
        MemoryKind::Hugepages { .. } => args.push("--in-memory".into()),
        MemoryKind::NoHuge { .. } => args.extend(["--no-huge".into(), "--no-shconf".into()]),
    }
    match &cfg.pci {
        PciAccess::None => args.push("--no-pci".into()),
        PciAccess::Allow(list) => args.extend(list.iter().flat_map(|a| ["-a".to_owned(), a.clone()])),
        PciAccess::Scan => {}
    }
    // Without a device that does DMA, virtual addresses do, and need no rights.
    let own_iova = cfg.extra_args.iter().any(|a| a.starts_with("--iova-mode"));
    let no_dma = cfg.pci == PciAccess::None || matches!(memory, MemoryKind::NoHuge { .. });
    if no_dma && !own_iova {
        args.push("--iova-mode=va".into());
    }
    args.push(format!("--log-level={}", cfg.log_level.number()));
    if cfg.log_level >= LogLevel::Info {
        args.push(format!("--log-level=*:{}", cfg.log_level.number()));
    }
    args.extend(cfg.extra_args.iter().cloned());
    args
}

/// `0-3,8`: DPDK's notation for a set of CPUs.
fn ranges(cpus: &[usize]) -> String {
    let mut out: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match out.last_mut() {
            Some((_, end)) if *end + 1 == cpu => *end = cpu,
            _ => out.push((cpu, cpu)),
        }
    }
    let texts: Vec<String> =
        out.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect();
    texts.join(",")
}

fn unique_prefix() -> String {
    // The keys of a hasher are the random number that the standard library has.
    let random = RandomState::new().build_hasher().finish() as u32;
    format!("rocegen-{}-{random:08x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_huge() -> MemoryKind {
        MemoryKind::NoHuge { reason: "test".into() }
    }

    #[test]
    fn cpu_sets_read_as_ranges() {
        assert_eq!(ranges(&[0]), "0");
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
    }

    #[test]
    fn without_hugepages_in_memory_is_not_asked_for() {
        let cfg = EalConfig { file_prefix: Some("x".into()), ..EalConfig::default() };
        assert_eq!(
            arguments(&cfg, &no_huge(), &[0, 1]).join(" "),
            "rocegen --lcores=0@(0-1) --no-telemetry -m 512 --file-prefix=x --no-huge --no-shconf --no-pci \
             --iova-mode=va --log-level=5"
        );
    }

    #[test]
    fn hardware_leaves_the_address_mode_to_dpdk() {
        let cfg = EalConfig {
            file_prefix: Some("x".into()),
            pci: PciAccess::Allow(vec!["0000:3b:00.0".into()]),
            log_level: LogLevel::Debug,
            extra_args: vec!["--vfio-intr=legacy".into()],
            ..EalConfig::default()
        };
        let huge = MemoryKind::Hugepages { page_size_kib: 2048, free_mib: 512 };
        assert_eq!(
            arguments(&cfg, &huge, &[4]).join(" "),
            "rocegen --lcores=0@(4) --no-telemetry -m 256 --file-prefix=x --in-memory -a 0000:3b:00.0 \
             --log-level=8 --log-level=*:8 --vfio-intr=legacy"
        );
    }

    #[test]
    fn an_address_mode_of_the_caller_wins() {
        let cfg = EalConfig { extra_args: vec!["--iova-mode=pa".into()], ..EalConfig::default() };
        let args = arguments(&cfg, &no_huge(), &[0]);
        assert_eq!(args.iter().filter(|a| a.starts_with("--iova-mode")).count(), 1);
    }

    #[test]
    fn prefixes_are_unique_and_checked() {
        assert_ne!(unique_prefix(), unique_prefix());
        for bad in ["", "a/b", &"x".repeat(41)] {
            let cfg = EalConfig { file_prefix: Some(bad.into()), ..EalConfig::default() };
            assert!(cfg.check().is_err(), "{bad}");
        }
        assert!(EalConfig { memory_mib: 0, ..EalConfig::default() }.check().is_err());
        assert!(EalConfig { file_prefix: Some(unique_prefix()), ..EalConfig::default() }.check().is_ok());
    }
}

//! Whether there are hugepages for DPDK.

use std::fs;
use std::path::Path;

use super::{EalConfig, EalError, Hugepages};

const SYSFS: &str = "/sys/kernel/mm/hugepages";

/// Where DPDK's memory comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// Hugepages.
    Hugepages {
        /// The largest size of which some were free, in KiB.
        page_size_kib: u64,
        /// What was free in hugepages of all sizes at the start, in MiB.
        free_mib: usize,
    },
    /// Normal pages.
    NoHuge {
        /// Why, in a few words.
        reason: String,
    },
}

/// Hugepages of one size, as the kernel counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HugepagePool {
    /// Size of a page in KiB.
    pub page_size_kib: u64,
    /// Pages that are reserved for use as hugepages.
    pub total: u64,
    /// Pages that a process can get.
    pub free: u64,
}

/// The hugepages of this machine, largest size first; empty if the kernel has
/// none.
pub fn free_hugepages() -> Vec<HugepagePool> {
    read_pools(Path::new(SYSFS))
}

/// Follows the configuration and what there is.
pub(super) fn choose(cfg: &EalConfig) -> Result<MemoryKind, EalError> {
    choose_from(cfg.hugepages, cfg.memory_mib, &free_hugepages())
}

fn choose_from(wanted: Hugepages, needed_mib: usize, pools: &[HugepagePool]) -> Result<MemoryKind, EalError> {
    if wanted == Hugepages::Never {
        return Ok(MemoryKind::NoHuge { reason: "hugepages were not asked for".into() });
    }
    let free_mib = (pools.iter().map(|p| p.free * p.page_size_kib).sum::<u64>() / 1024) as usize;
    match (pools.iter().find(|p| p.free > 0), wanted) {
        (Some(largest), _) if free_mib >= needed_mib => {
            Ok(MemoryKind::Hugepages { page_size_kib: largest.page_size_kib, free_mib })
        }
        (_, Hugepages::Require) => {
            Err(EalError::Hugepages { needed_mib, free_mib, hint: hint(needed_mib, pools) })
        }
        _ => Ok(MemoryKind::NoHuge {
            reason: format!("{needed_mib} MiB of hugepages needed, {free_mib} MiB free"),
        }),
    }
}

/// How to reserve what is missing, in the smallest size there is.
fn hint(needed_mib: usize, pools: &[HugepagePool]) -> String {
    let Some(smallest) = pools.last() else {
        return "this kernel has no hugepages (CONFIG_HUGETLBFS)".into();
    };
    let used = smallest.total - smallest.free.min(smallest.total);
    let pages = used + (needed_mib as u64 * 1024).div_ceil(smallest.page_size_kib);
    format!(
        "reserve them with: echo {pages} | sudo tee {SYSFS}/hugepages-{}kB/nr_hugepages",
        smallest.page_size_kib
    )
}

fn read_pools(root: &Path) -> Vec<HugepagePool> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut pools: Vec<_> = entries.filter_map(|entry| read_pool(&entry.ok()?.path())).collect();
    pools.sort_by_key(|p| std::cmp::Reverse(p.page_size_kib));
    pools
}

fn read_pool(dir: &Path) -> Option<HugepagePool> {
    let size = dir.file_name()?.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?;
    let number = |name: &str| fs::read_to_string(dir.join(name)).ok()?.trim().parse::<u64>().ok();
    // A page that somebody has a claim on still counts as free.
    let free = number("free_hugepages")?.saturating_sub(number("resv_hugepages").unwrap_or(0));
    Some(HugepagePool { page_size_kib: size.parse().ok()?, total: number("nr_hugepages")?, free })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(page_size_kib: u64, total: u64, free: u64) -> HugepagePool {
        HugepagePool { page_size_kib, total, free }
    }

    #[test]
    fn auto_takes_hugepages_of_either_size_if_they_suffice() {
        let kind = |pools: &[_]| choose_from(Hugepages::Auto, 512, pools).unwrap();
        assert_eq!(
            kind(&[pool(1 << 20, 0, 0), pool(2048, 256, 256)]),
            MemoryKind::Hugepages { page_size_kib: 2048, free_mib: 512 }
        );
        assert_eq!(
            kind(&[pool(1 << 20, 1, 1), pool(2048, 0, 0)]),
            MemoryKind::Hugepages { page_size_kib: 1 << 20, free_mib: 1024 }
        );
        assert_eq!(
            kind(&[pool(2048, 256, 255)]),
            MemoryKind::NoHuge { reason: "512 MiB of hugepages needed, 510 MiB free".into() }
        );
        assert!(matches!(kind(&[]), MemoryKind::NoHuge { .. }));
    }

    #[test]
    fn never_means_never() {
        let kind = choose_from(Hugepages::Never, 1, &[pool(2048, 99, 99)]).unwrap();
        assert!(matches!(kind, MemoryKind::NoHuge { .. }));
    }

    #[test]
    fn require_says_what_to_do() {
        let text = |pools: &[_]| choose_from(Hugepages::Require, 512, pools).unwrap_err().to_string();
        assert_eq!(
            text(&[pool(1 << 20, 0, 0), pool(2048, 100, 40)]),
            "512 MiB of hugepages are needed, 80 MiB are free; reserve them with: echo 316 | sudo tee \
             /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
        );
        assert!(text(&[]).ends_with("this kernel has no hugepages (CONFIG_HUGETLBFS)"));
    }

    #[test]
    fn claimed_pages_are_not_free() {
        let root = std::env::temp_dir().join(format!("dpdk-ffi-hugepages-{}", std::process::id()));
        let dir = root.join("hugepages-2048kB");
        fs::create_dir_all(&dir).unwrap();
        for (name, value) in [("nr_hugepages", 10), ("free_hugepages", 8), ("resv_hugepages", 3)] {
            fs::write(dir.join(name), format!("{value}\n")).unwrap();
        }
        fs::create_dir_all(root.join("unrelated")).unwrap();
        let pools = read_pools(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(pools, [pool(2048, 10, 5)]);
    }
}

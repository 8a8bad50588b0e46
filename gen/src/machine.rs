//! What this computer has to offer.

use std::fs;

/// The cores that this process may run on, ascending; empty where the kernel does not say.
pub fn available_cores() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "Cpus_allowed_list").map(parse_list).unwrap_or_default()
}

/// Bytes of memory that a new program could take without swapping; `None` where the kernel does not
/// say.
pub fn available_memory() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = field(&info, "MemAvailable")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Bytes of the second-level cache of a core; `None` where the kernel does not say.
pub fn second_level_cache() -> Option<u64> {
    let dir = std::path::Path::new("/sys/devices/system/cpu/cpu0/cache");
    let read = |index: &std::path::Path, name: &str| fs::read_to_string(index.join(name)).ok();
    fs::read_dir(dir).ok()?.flatten().map(|e| e.path()).find_map(|index| {
        if read(&index, "level")?.trim() != "2" {
            return None;
        }
        let kib: u64 = read(&index, "size")?.trim().strip_suffix('K')?.parse().ok()?;
        Some(kib * 1024)
    })
}

/// The value after `name:` at the start of a line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// `0-3,6`.
fn parse_list(list: &str) -> Vec<usize> {
    let mut cores = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
            cores.extend(first..=last);
        }
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(parse_list("0"), [0]);
        assert_eq!(parse_list("0-3,6"), [0, 1, 2, 3, 6]);
        assert!(parse_list("").is_empty());
    }

    #[test]
    fn fields() {
        let text = "MemTotal:  10 kB\nMemAvailable:    7 kB\n";
        assert_eq!(field(text, "MemAvailable"), Some("7 kB"));
        assert_eq!(field(text, "Mem"), None);
    }

    #[test]
    fn this_machine() {
        assert!(!available_cores().is_empty());
        assert!(available_memory().is_some_and(|m| m > 1 << 20));
    }
}

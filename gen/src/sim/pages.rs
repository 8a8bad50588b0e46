//! Large pages for large worlds.

use crate::config::Scenario;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Ports from which on it pays: the hosts of a smaller world fit into what the processor remembers of
/// small pages.
const PORTS: usize = 64;
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Begins this program anew with a heap in large pages, where the kernel gives them to who asks:
/// events touch one host after the other, and half of the time of a few hundred hosts would go into
/// looking up where their small pages are.  The C library is told by its environment only, and asks
/// for it when it starts.  Whoever has set the variable is left alone.
pub(super) fn ask_for_large(scenario: &Scenario, file: &Path) {
    let asked_for = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let helps = asked_for.is_ok_and(|modes| modes.contains("[madvise]"));
    // What cannot be read twice is read once.
    if !helps || scenario.ports.len() < PORTS || std::env::var_os(TUNABLES).is_some() || !file.is_file() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let error = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(TUNABLES, "glibc.malloc.hugetlb=1")
        .exec();
    // As it is it goes as well.
    log::debug!("cannot begin anew with large pages: {error}");
}

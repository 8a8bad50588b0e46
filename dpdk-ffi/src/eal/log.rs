//! DPDK's log: kept in the shim, and read for the reason of an error.

use dpdk_sys as sys;

use super::LogLevel;

/// Lines of an error text at most.
const LINES: usize = 3;

/// Takes over the log.  If that fails, errors lack their reason, no more.
pub(super) fn open(level: LogLevel) {
    let echo = i32::from(level != LogLevel::Quiet);
    // SAFETY: called before the EAL starts, when nothing logs yet.
    unsafe { sys::rdpdk_log_open(level.number(), echo) };
}

/// Empties the log and returns what was in it.
pub(crate) fn take() -> String {
    let mut text = vec![0u8; 16 << 10];
    // SAFETY: writes at most `text.len()` bytes to `text`; the shim locks its buffer.
    let n = unsafe { sys::rdpdk_log_take(text.as_mut_ptr().cast(), text.len()) };
    text.truncate(n);
    String::from_utf8_lossy(&text).into_owned()
}

/// Empties the log and returns its last lines in one.
pub(crate) fn last_lines() -> String {
    join_last(&take())
}

/// The last lines of a text that say something, without repetitions, joined
/// by `; `.
pub(super) fn join_last(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(|line| without_function(line.trim())) {
        if !line.is_empty() && !lines.contains(&line) && !SAYS_NOTHING.iter().any(|s| line.starts_with(s)) {
            lines.push(line);
        }
    }
    lines[lines.len().saturating_sub(LINES)..].join("; ")
}

/// What the EAL adds to the reason that a driver gave, or says twice.
const SAYS_NOTHING: [&str; 3] =
    ["EAL: Driver cannot attach the device", "EAL: Failed to attach device on primary", "EAL: FATAL:"];

/// Drivers begin their lines with the name of the function.
fn without_function(line: &str) -> &str {
    match line.split_once("(): ") {
        Some((name, rest)) if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') => rest.trim(),
        _ => line,
    }
}

/// Whether DPDK found nobody for a device, which it says in words only.
pub(super) fn says_no_driver(log: &str) -> bool {
    ["no driver found for", "failed to parse device", "Cannot find bus"].iter().any(|s| log.contains(s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_last_lines() {
        assert_eq!(join_last("a\nb\n\nb\nc\n d \n"), "b; c; d");
        assert_eq!(join_last("one\n"), "one");
        assert_eq!(join_last("\n"), "");
        let tap = "tun_alloc(): Unable to set TUNSETIFF for x: Operation not permitted\n\
                   eth_dev_tap_create():  TAP Unable to initialize net_tap0\n\
                   EAL: Driver cannot attach the device (net_tap0)\n\
                   EAL: Failed to attach device on primary process\n";
        assert_eq!(
            join_last(tap),
            "Unable to set TUNSETIFF for x: Operation not permitted; TAP Unable to initialize net_tap0"
        );
        assert!(says_no_driver("EAL: failed to parse device \"net_x\"\n") && !says_no_driver(tap));
    }
}

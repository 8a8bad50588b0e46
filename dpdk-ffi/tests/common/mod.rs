//! Runs a test binary again, as a process that plays a role.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Names the role to the test `child` of the same binary.
pub(crate) const ROLE: &str = "DPDK_FFI_TEST_ROLE";

/// Starts `exe`, through the command `wrapper` if that is not empty.
pub(crate) fn spawn(exe: &Path, role: &str, wrapper: &[&str]) -> Child {
    let mut line: Vec<&OsStr> = wrapper.iter().map(AsRef::as_ref).collect();
    line.push(exe.as_os_str());
    Command::new(line[0])
        .args(&line[1..])
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env_remove("XDG_RUNTIME_DIR")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spawn")
}

/// Waits for the end of a role that must succeed.
pub(crate) fn finish(child: Child) -> Output {
    let output = child.wait_with_output().expect("wait");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    output
}

//! What a whole process does: start and end, two at once, as a normal user.
//!
//! Each test runs this test binary again with `ROLE` set: then [`child`] is
//! the only test and plays that role in a process of its own.

// For the helpers; in test functions it is allowed anyway.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use arrayvec::ArrayVec;
use common::{ROLE, finish, spawn};
use dpdk_ffi::{Eal, EalConfig, EalError, Hugepages, Mbuf, MemoryKind, Mempool, Port, PortConfig, ring_pair};

fn run(role: &str) {
    finish(spawn(&std::env::current_exe().unwrap(), role, &[]));
}

/// The process that the other tests start.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "affinity" => affinity(),
        "traffic" => drop(traffic(EalConfig::default())),
        "quiet" => quiet(),
        "unknown-vdev" => unknown_vdev(),
        "bad-argument" => bad_argument(),
        "hold-frame" => hold_frame(),
        "preflight" => preflight(),
        "tap" => tap(),
        other => panic!("role {other}"),
    }
}

fn never() -> EalConfig {
    EalConfig { hugepages: Hugepages::Never, memory_mib: 64, ..EalConfig::default() }
}

fn allowed() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    status.lines().find(|l| l.starts_with("Cpus_allowed_list")).unwrap().to_owned()
}

fn affinity() {
    let before = allowed();
    let eal = Eal::init(&never()).expect("EAL");
    assert_eq!(allowed(), before);
    assert_eq!(std::thread::spawn(allowed).join().unwrap(), before);
    assert!(Eal::dpdk_version().starts_with("DPDK 2"), "{}", Eal::dpdk_version());
    assert_eq!(eal.memory(), MemoryKind::NoHuge { reason: "hugepages were not asked for".into() });
    // The last handle need not be in the thread that started it.
    std::thread::spawn(move || drop(eal)).join().unwrap();
}

/// Sends a hundred frames through a ring and checks that all came back.
fn traffic(cfg: EalConfig) -> Eal {
    let cfg = EalConfig { memory_mib: 64, ..cfg };
    let eal = Eal::init(&cfg).expect("EAL");
    let pool = Mempool::create(&eal, "frames", 255, 32, 2048, None, None).expect("pool");
    let (a, b) = ring_pair(&eal, "pair", 1, 128, None).expect("pair");
    let open = |id| {
        let mut port =
            Port::configure(&eal, id, &PortConfig::default(), std::slice::from_ref(&pool)).unwrap();
        port.start().unwrap();
        port
    };
    let (mut a, mut b) = (open(a), open(b));
    let ((_, mut tx), (mut rx, _)) = (a.take_queue(0).unwrap(), b.take_queue(0).unwrap());
    for i in 0..100u8 {
        let mut batch = ArrayVec::<Mbuf, 1>::new();
        assert_eq!(pool.alloc_bulk(&mut batch, 1), 1);
        batch[0].room_mut()[..60].fill(i);
        batch[0].set_len(60);
        assert_eq!(tx.send(&mut batch), 1);
        // Long enough for two processes to be at it at the same time.
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_eq!(rx.recv(&mut batch), 1);
        assert_eq!(batch[0].data(), [i; 60]);
    }
    drop((a, b, tx, rx));
    assert_eq!(pool.available(), 255);
    eal
}

fn quiet() {
    println!("before");
    drop(traffic(never()));
    println!("after");
    eprintln!("error stream");
}

fn unknown_vdev() {
    let cfg = EalConfig { vdevs: vec!["net_nosuch0,x=1".into()], ..never() };
    let error = Eal::init(&cfg).expect_err("no driver");
    assert!(matches!(error, EalError::DriverNotFound { .. }), "{error:?}");
    assert!(error.to_string().contains("`net_nosuch0,x=1`"), "{error}");
}

fn bad_argument() {
    let cfg = EalConfig { extra_args: vec!["--no-such-option".into()], ..never() };
    let error = Eal::init(&cfg).expect_err("option").to_string();
    assert!(error.contains("no-such-option") && !error.contains('\n'), "{error}");
}

/// Memory must stay mapped under a frame that is still held.
fn hold_frame() {
    let eal = Eal::init(&never()).expect("EAL");
    let pool = Mempool::create(&eal, "held", 31, 0, 2048, None, None).expect("pool");
    let mut batch = ArrayVec::<Mbuf, 1>::new();
    pool.alloc_bulk(&mut batch, 1);
    drop((pool, eal));
    batch[0].room_mut().fill(0x5A);
    batch[0].set_len(2000);
    assert_eq!(batch[0].data(), [0x5A; 2000]);
}

/// What is refused before DPDK sees it does not use up the only start.
fn preflight() {
    let cfg = EalConfig { hugepages: Hugepages::Require, memory_mib: 1 << 20, ..EalConfig::default() };
    let error = Eal::init(&cfg).expect_err("a tebibyte of hugepages");
    assert!(error.is_environment());
    assert!(error.to_string().starts_with("1048576 MiB of hugepages are needed"), "{error}");
    drop(Eal::init(&never()).expect("the start is still there"));
    assert_eq!(Eal::init(&never()).expect_err("second"), EalError::AlreadyInitialised);
}

/// Without rights, the kernel's reason reaches the user.
fn tap() {
    let eal = Eal::init(&never()).expect("EAL");
    let error = eal.attach("net_tap0,iface=rocegentap").expect_err("no rights");
    println!("tap says: {error}");
    assert!(matches!(error, EalError::Attach { .. }), "{error:?}");
    assert!(error.to_string().contains("Operation not permitted") || !Path::new("/dev/net/tun").exists());
    drop(traffic_after(eal));
}

/// A device that failed does no harm to others.
fn traffic_after(eal: Eal) -> Eal {
    let pool = Mempool::create(&eal, "after", 63, 0, 2048, None, None).expect("pool");
    assert_eq!(pool.available(), 63);
    eal
}

/// The runtime directories of DPDK that exist now.
fn runtime_dirs() -> Vec<PathBuf> {
    ["/var/run/dpdk", "/tmp/dpdk"]
        .iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flat_map(|entries| entries.filter_map(|e| Some(e.ok()?.path())))
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("rocegen-")))
        .collect()
}

fn left_by(pid: u32) -> bool {
    let own = format!("rocegen-{pid}-");
    runtime_dirs().iter().any(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&own)))
}

#[test]
fn the_caller_is_not_pinned() {
    run("affinity");
}

#[test]
fn a_process_leaves_nothing_behind_and_says_nothing() {
    let child = spawn(&std::env::current_exe().unwrap(), "quiet", &[]);
    let pid = child.id();
    let output = finish(child);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> =
        stdout.lines().filter(|l| ["before", "after"].iter().any(|w| l.contains(w))).collect();
    assert_eq!(lines.len(), 2, "{stdout}");
    assert!(!stdout.contains("EAL"), "{stdout}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "error stream\n");
    assert!(!left_by(pid));
}

#[test]
fn two_processes_run_side_by_side() {
    let exe = std::env::current_exe().unwrap();
    let both = [spawn(&exe, "traffic", &[]), spawn(&exe, "traffic", &[])];
    for child in both {
        let pid = child.id();
        finish(child);
        assert!(!left_by(pid));
    }
}

#[test]
fn errors_of_the_start_name_their_reason() {
    run("unknown-vdev");
    run("preflight");
    // From 25.11 on, DPDK ends the process for this; then at least it says why.
    let output = spawn(&std::env::current_exe().unwrap(), "bad-argument", &[]).wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() || errors.contains("no-such-option"), "{errors}");
}

#[test]
fn a_frame_may_outlive_everything() {
    run("hold-frame");
}

#[test]
fn a_normal_user_can_do_all_this() {
    // Asked of the kernel by way of a file's owner: no unsafe in tests either.
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("skipped: not root, so the other tests have shown it");
        return;
    }
    // The build directory may be out of reach for others.
    let dir = std::env::temp_dir().join(format!("dpdk-ffi-user-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    let exe = dir.join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    std::fs::set_permissions(&exe, std::fs::Permissions::from_mode(0o755)).unwrap();
    let user = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"];
    if Command::new(user[0]).args(&user[1..]).arg("true").status().is_ok_and(|s| s.success()) {
        for role in ["traffic", "affinity", "quiet", "tap"] {
            let child = spawn(&exe, role, &user);
            let pid = child.id();
            let output = finish(child);
            assert!(!left_by(pid), "{role}");
            for line in String::from_utf8_lossy(&output.stdout).lines().filter(|l| l.contains("says")) {
                println!("{line}");
            }
        }
    } else {
        println!("skipped: setpriv cannot become uid 1000 here");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

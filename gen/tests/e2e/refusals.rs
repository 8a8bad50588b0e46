//! What cannot be run is refused with one line that says why, and nothing is left behind.

use crate::common::{Folder, Machine, ROCEGEN, Running, flow, is_root, ring_pair, rocegen, run, two_ports};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A short run that is right but for what a test changes in it.
fn good() -> String {
    ring_pair("duration = \"50ms\"", &flow("f", "write", "size = 8"))
}

/// `rocegen run` on this text is refused with `code` and a line that has all of `words`.
fn refused(code: i32, scenario: &str, words: &[&str]) {
    let folder = Folder::new();
    let file = folder.write("x.toml", scenario);
    let ended = run(["run", &file]);
    let line = ended.error(code);
    for word in words {
        assert!(line.contains(word), "no `{word}` in: {line}");
    }
    assert_eq!(folder.names(), ["x.toml"], "nothing is left");
    assert_eq!(interfaces(), Vec::<String>::new());
}

/// Network interfaces with the name that the tests give theirs.
fn interfaces() -> Vec<String> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
    names.filter(|n| n.starts_with("rge2e")).collect()
}

/// `good` with the device of port `b`, and a flow that goes there unanswered.
fn with_device(device: &str, more: &str) -> String {
    let flows =
        flow("f", "write", "size = 8\nmessages = 1").replace("ack_timeout = 20", "transport = \"uc\"");
    two_ports("", (device, "198.18.0.1", more), ("none", "198.18.0.2", "mac = \"02:00:00:00:00:02\""), &flows)
}

#[test]
fn scenarios_that_are_wrong() {
    let _machine = Machine::take();
    let change = |from: &str, to: &str| {
        assert!(good().contains(from));
        good().replacen(from, to, 1)
    };
    let line = |text: &str, key: &str| {
        let at = text.lines().position(|l| l.starts_with(key)).unwrap();
        format!("x.toml:{}: ", at + 1)
    };
    let unknown = change("size = 8", "size = 8\ndepht = 3");
    refused(2, &unknown, &[&line(&unknown, "depht"), "unknown key \"depht\"", "did you mean \"depth\""]);
    let unit = change("size = 8", "size = 8\nrate = \"98\"");
    refused(2, &unit, &[&line(&unit, "rate"), "\"rate\"", "98"]);
    refused(2, &change("\"50ms\"", "\"50\""), &["x.toml:2", "\"duration\""]);
    refused(2, &change("198.18.0.2", "198.18.0.1"), &["198.18.0.1", "\"a\"", "\"b\""]);
    refused(
        2,
        &change("size = 8", "size = 8\nmtu = 4096").replacen("0.1\"", "0.1\"\nmtu = 1500", 1),
        &["4096", "1500"],
    );
    refused(2, &change("ip = \"198.18.0.1\"", "ip = \"198.18.0.1\"\ncores = [99]"), &["99", "core"]);
    let twice = change("ip = \"198.18.0.1\"", "ip = \"198.18.0.1\"\ncores = [0]");
    refused(
        2,
        &twice.replacen("ip = \"198.18.0.2\"", "ip = \"198.18.0.2\"\ncores = [0]", 1),
        &["core 0", "\"a\"", "\"b\""],
    );
    refused(2, &change("ip = \"198.18.0.1\"", "ip = \"198.18.0.1\"\ncores = [0, 0]"), &["core 0"]);
    refused(2, &change("device = \"ring:0\"", "device = \"ring:1\""), &["ring:"]);
    refused(2, &change("\"write\"", "\"wirte\""), &["wirte", "write"]);
    refused(2, &change("[run]", "[rnu]"), &["rnu"]);
    refused(2, "not TOML at all", &["x.toml:1"]);
}

#[test]
fn a_file_that_is_not_there() {
    let ended = run(["run", "/nowhere/x.toml"]);
    assert!(ended.error(2).contains("/nowhere/x.toml"));
}

#[test]
fn devices_that_are_not_there() {
    let _machine = Machine::take();
    refused(3, &with_device("net_foo0", ""), &["port \"a\"", "net_foo0", "driver not found"]);
    refused(
        3,
        &with_device("net_pcap0,rx_pcap=/nowhere/x.pcap,tx_pcap=/dev/null", ""),
        &["port \"a\"", "/nowhere/x.pcap"],
    );
    let folder = Folder::new();
    let socket = folder.path("no.sock");
    let memif = |role: &str| format!("net_memif0,role={role},socket={socket},socket-abstract=no");
    let soon = "link_wait = \"200ms\"";
    refused(3, &with_device(&memif("server"), soon), &["port \"a\"", "no link after 0.2 s"]);
    refused(3, &with_device(&memif("client"), soon), &["port \"a\"", "no.sock"]);
    assert_eq!(folder.names(), Vec::<String>::new());
    if is_root() {
        refused(3, &with_device("net_af_packet0,iface=rge2eno0", ""), &["port \"a\"", "rge2eno0"]);
        // Ethernet frames of this size are more than the driver says it takes.
        refused(3, &with_device("net_tap0,iface=rge2e0", "mtu = 9000"), &["port \"a\"", "9000"]);
    }
    // The slot is empty in every machine.
    refused(3, &with_device("0000:ff:1f.7", ""), &["0000:ff:1f.7"]);
}

#[test]
fn hugepages_that_are_not_there() {
    let _machine = Machine::take();
    let free = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    if !free.lines().any(|l| l.starts_with("HugePages_Free:") && l.ends_with(" 0")) {
        println!("skipped: this machine has free hugepages");
        return;
    }
    let needs = good().replacen("[run]", "[run]\nhugepages = \"require\"", 1);
    refused(3, &needs, &["MiB of hugepages are needed", "0 MiB are free", "nr_hugepages"]);
}

#[test]
fn places_that_cannot_be_written() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let file = folder.write("x.toml", &good());
    let in_the_way = folder.write("file", "");
    let out = format!("{in_the_way}/out");
    let ended = run(["run", &file, "--out", &out]);
    assert!(ended.error(3).starts_with(&format!("error: --out {out}: ")), "{}", ended.stderr);
    let pcap = folder.path("missing/x.pcapng");
    let ended = run(["run", &file, "--pcap", &pcap]);
    assert!(ended.error(3).starts_with(&format!("error: --pcap {pcap}: ")), "{}", ended.stderr);
    // A run that does not start leaves no empty recording, and does not touch an older one.
    let pcap = folder.path("new.pcapng");
    run([
        "run",
        &file,
        "--pcap",
        &pcap,
        "--set",
        "port.a.device=net_foo0",
        "--set",
        "port.b.device=net_null0",
    ])
    .error(3);
    assert_eq!(folder.names(), ["file", "x.toml"]);
}

#[test]
fn words_that_are_no_command_line() {
    for args in [
        &["run"][..],
        &["run", "x.toml", "--set", "novalue"],
        &["run", "x.toml", "--pcap-count", "5"],
        &["rnu"],
    ] {
        let ended = run(args);
        assert_eq!(ended.code(), Some(2), "{args:?}");
        assert_eq!(ended.stdout, "");
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    }
}

/// D11.
#[test]
fn two_at_once() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let file = folder.write("x.toml", &good());
    let start = || Running::spawn(&mut rocegen(["run", &file, "--json"]));
    let both = [start(), start()];
    for run in both {
        run.end().result(0);
    }
}

/// The command as another user may start it; `None` where this one may not become another.
struct User {
    folder: Folder,
    program: PathBuf,
}

const SETPRIV: [&str; 4] = ["--reuid=1000", "--regid=1000", "--clear-groups", "--"];

impl User {
    fn new() -> Option<User> {
        let able = || Command::new("setpriv").args(SETPRIV).arg("true").status().is_ok_and(|s| s.success());
        if !is_root() || !able() {
            println!("skipped: not root, or setpriv cannot become uid 1000");
            return None;
        }
        // The build folder may be out of reach for others.
        let folder = Folder::new();
        let program = PathBuf::from(folder.path("rocegen"));
        fs::copy(ROCEGEN, &program).unwrap();
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        open(&program);
        open(program.parent().unwrap());
        Some(User { folder, program })
    }

    fn run(&self, args: &[&str]) -> crate::common::Ended {
        let mut command = Command::new("setpriv");
        command.args(SETPRIV).arg(&self.program).args(args);
        Running::spawn(command.current_dir("/").env_remove("XDG_RUNTIME_DIR")).end()
    }
}

/// O04.
#[test]
fn another_user() {
    let _machine = Machine::take();
    let Some(user) = User::new() else { return };
    let rings = user.folder.write("rings.toml", &good());
    user.run(&["run", &rings, "--json"]).result(0);
    let null = user.folder.write("null.toml", &with_device("net_null0", ""));
    user.run(&["run", &null, "--json", "--no-huge"]).result(0);

    let tap = user.folder.write("tap.toml", &with_device("net_tap0,iface=rge2e0", ""));
    let ended = user.run(&["run", &tap]);
    assert!(ended.error(3).contains("CAP_NET_ADMIN"), "{}", ended.stderr);
    let packet = user.folder.write("packet.toml", &with_device("net_af_packet0,iface=lo", ""));
    let ended = user.run(&["run", &packet]);
    assert!(ended.error(3).contains("CAP_NET_RAW"), "{}", ended.stderr);
    assert_eq!(interfaces(), Vec::<String>::new());

    // Folders that are root's.
    let own = user.folder.path("");
    let ended = user.run(&["run", &rings, "--out", &own]);
    assert!(ended.error(3).starts_with("error: --out "), "{}", ended.stderr);
    let pcap = user.folder.path("x.pcapng");
    let ended = user.run(&["run", &rings, "--pcap", &pcap]);
    assert!(ended.error(3).starts_with("error: --pcap "), "{}", ended.stderr);
}

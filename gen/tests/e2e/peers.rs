//! Flows to a machine that has no scenario: a service of this project's, met as perftest's would be.

use crate::common::{Ended, Folder, Machine, Running, flow, int, list, rocegen, run, text, wait_until};
use crate::configs::well_formed;
use std::cell::Cell;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::panic::AssertUnwindSafe;
use std::path::Path;

const SEGV: i32 = 11;

thread_local! {
    /// Whether a process of this test has crashed.
    static CRASHED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test, and once more where the memif driver crashed: it does, rarely, when the other side goes away (see
/// `connect`), and that says nothing of rocegen.
fn whatever_memif_does(test: impl Fn()) {
    for _ in 0..5 {
        CRASHED.set(false);
        match std::panic::catch_unwind(AssertUnwindSafe(&test)) {
            Ok(()) => return,
            Err(_) if CRASHED.get() => println!("note: the memif driver crashed; again"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    panic!("the memif driver crashes all the time");
}

/// Runs `rocegen run` to its end.
fn go(file: &str, more: &[&str]) -> Ended {
    let ended = run(["run", file].iter().chain(more));
    CRASHED.set(CRASHED.get() || ended.status.signal() == Some(SEGV));
    ended
}

/// A machine at the other end of a memif.
struct There {
    folder: Folder,
    /// Where its kernel waits.
    port: u16,
    process: Running,
}

impl There {
    /// `rocegen` with `words`, on a port with address 198.18.0.9.
    fn start(words: &[&str]) -> There {
        There::at(words, &["--ip", "198.18.0.9/24"])
    }

    fn at(words: &[&str], addresses: &[&str]) -> There {
        let folder = Folder::new();
        let socket = folder.path("memif.sock");
        // Free now; so it will be in a moment.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let device =
            format!("net_memif0,role=server,socket={socket},socket-abstract=no,mac=02:00:00:00:00:09");
        let (service, number) = (if words[0] == "serve" { "--perftest" } else { "-p" }, port.to_string());
        let own = ["-d", &device, "--no-huge", "--oob", "127.0.0.1"];
        let mut command = rocegen(words);
        command.args(own).args(addresses).args([service, &number]);
        let mut process = Running::spawn(&mut command);
        wait_until("the socket is there", || process.is_over() || Path::new(&socket).exists());
        There { folder, port, process }
    }

    /// A scenario with one port, from which `flows` go there.
    fn scenario(&self, port: &str, flows: &str) -> String {
        let socket = self.folder.path("memif.sock");
        let text = format!(
            "[run]\nhugepages = \"never\"\ndrain = \"5s\"\n[[port]]\nname = \"a\"\nip = \"198.18.0.1/24\"\n\
             device = \"net_memif0,role=client,socket={socket},socket-abstract=no,mac=02:00:00:00:00:01\"\n\
             link_wait = \"1m\"\n{port}\n{flows}\n"
        );
        self.folder.write("x.toml", &text)
    }

    /// A flow there, met as `how`.
    fn flow(&self, verb: &str, how: &str, more: &str) -> String {
        let oob = if how == "perftest" { "oob = \"127.0.0.1\"" } else { "" };
        let keys = format!("connect = \"{how}\"\n{oob}\nservice = {}\nmtu = 1024\n{more}", self.port);
        flow(verb, verb, &keys).replace("to = \"b\"", "to = \"198.18.0.9\"")
    }

    /// Ends it; what it said.
    fn end(mut self) -> String {
        self.process.signal("INT");
        wait_until("it ends", || self.process.is_over());
        assert_eq!(self.process.died_of(), None);
        self.process.said()
    }
}

impl Drop for There {
    fn drop(&mut self) {
        CRASHED.set(CRASHED.get() || self.process.died_of() == Some(SEGV));
    }
}

#[test]
fn every_verb_by_both_ways() {
    let _machine = Machine::take();
    whatever_memif_does(every_verb_by_both_ways_once);
}

fn every_verb_by_both_ways_once() {
    let there = There::start(&["serve"]);
    let keys = "size = 10001\nqps = 2\ndepth = 4\nmessages = 60";
    let verbs = ["write", "write_imm", "send", "send_imm", "read"];
    for (flows, count) in [
        (verbs.map(|v| there.flow(v, "perftest", keys)).concat(), verbs.len()),
        (there.flow("write", "cm", keys), 1),
        (there.flow("read", "cm", keys) + &there.flow("send", "perftest", keys), 2),
    ] {
        let result = go(&there.scenario("", &flows), &["--json"]).result(0);
        well_formed(&result);
        assert_eq!(list(&result, "/flows").len(), count);
        for f in list(&result, "/flows") {
            assert_eq!(int(f, "/messages"), 120, "{f:#}");
            assert_eq!(int(f, "/messages_failed") + int(f, "/messages_outstanding"), 0);
        }
    }
    let said = there.end();
    assert_eq!(said.matches(": gone after ").count(), 8, "one line for each flow: {said}");
    assert_eq!(said.matches("perftest -R: gone after ").count(), 2, "{said}");
    // Each of the flows that bring something, and none sent twice; by the connection manager with words.
    let taken = |line: &str| {
        line.split(' ').zip(line.split(' ').skip(1)).find(|(_, w)| *w == "bytes")?.0.parse().ok()
    };
    let taken: Vec<u64> = said.lines().filter(|l| l.contains("perftest")).filter_map(taken).collect();
    assert_eq!(taken.iter().filter(|n| **n == 1_200_120).count(), 5, "{said}");
    assert_eq!(taken.iter().filter(|n| (1_200_121..1_202_000).contains(*n)).count(), 1, "{said}");
}

#[test]
fn a_router_before_it() {
    let _machine = Machine::take();
    whatever_memif_does(a_router_before_it_once);
}

fn a_router_before_it_once() {
    let far = [
        "--ip",
        "198.18.1.9/24",
        "--gateway",
        "198.18.1.254",
        "--neighbour",
        "198.18.1.254=02:00:00:00:00:01",
    ];
    let there = There::at(&["serve"], &far);
    let router = "gateway = \"198.18.0.254\"\nneighbours = [\"198.18.0.254=02:00:00:00:00:09\"]";
    for how in ["perftest", "cm"] {
        let flows =
            there.flow("write", how, "size = 5000\nmessages = 20").replace("198.18.0.9", "198.18.1.9");
        let result = go(&there.scenario(router, &flows), &["--json"]).result(0);
        assert_eq!(int(&result, "/flows/0/messages"), 20);
        // Nobody there has the address: without the router it is looked for in vain.
        if how == "cm" {
            let ended = go(&there.scenario("", &flows), &[]);
            let line = ended.error(3);
            assert!(
                line.contains(
                    "port \"a\": no neighbour answers for 198.18.1.9 (own addresses: 198.18.0.1/24)"
                ),
                "{line}"
            );
        }
    }
    there.end();
}

#[test]
fn what_the_machine_cannot_do_is_said() {
    let _machine = Machine::take();
    whatever_memif_does(what_the_machine_cannot_do_is_said_once);
}

fn what_the_machine_cannot_do_is_said_once() {
    let there = There::start(&["perftest", "ib_write_bw", "-s", "4096", "-m", "512"]);
    let flows = there.flow("write", "perftest", "size = 64\nmessages = 5");
    let ended = go(&there.scenario("", &flows), &[]);
    let line = ended.error(2);
    assert!(
        line.contains("flow \"write\": key \"mtu\": ")
            && line.ends_with("carries at most 512: write mtu = 512"),
        "{line}"
    );

    let there = There::start(&["perftest", "ib_write_bw", "-s", "4096"]);
    let flows = there.flow("write", "perftest", "size = \"1MiB\"\nmessages = 5");
    let result = go(&there.scenario("", &flows), &["--json"]).result(1);
    let reasons = list(&result, "/reasons");
    assert_eq!(reasons.len(), 1, "{reasons:#?}");
    let reason = text(&result, "/reasons/0");
    assert!(
        reason.contains("REM_ACCESS_ERR") && reason.contains("ib_write_bw, with -s 1048576 or more"),
        "{reason}"
    );

    // Nobody listens.
    let there = There::start(&["serve"]);
    let flows = there.flow("write", "cm", "size = 64\nmessages = 5");
    let other = flows.replace(&format!("service = {}", there.port), "service = 7000");
    let ended = go(&there.scenario("", &other), &[]);
    let line = ended.error(3);
    assert!(
        line.ends_with("flow \"write\": 198.18.0.9: refused: nobody listens on this service (reason 8)"),
        "{line}"
    );
    there.end();
}

//! Two processes, each with one end of the flows: memif between them for frames, TCP for the rest.

use crate::common::{Ended, Folder, Machine, Running, flow, int, list, rocegen, run, text, wait_until};
use crate::configs::well_formed;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::thread::JoinHandle;
use std::time::Duration;

/// Two scenario files that belong together: `a` listens, `b` comes.
struct Hosts {
    folder: Folder,
    port: u16,
}

impl Hosts {
    fn new() -> Hosts {
        // Free now; so it will be in a moment.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Hosts { folder: Folder::new(), port }
    }

    fn file(&self, own: &str, run: &str, flows: &str) -> String {
        let (role, connect) = match own {
            "a" => ("server", "listen"),
            _ => ("client", "peer"),
        };
        let memif =
            format!("net_memif0,role={role},socket={},socket-abstract=no", self.folder.path("memif.sock"));
        let (device_a, device_b) =
            if own == "a" { (memif.as_str(), "remote") } else { ("remote", memif.as_str()) };
        let more = |name: &str| match name == own {
            // One core for each, as far as there are two.
            true => format!("cores = [{}]\nlink_wait = \"1m\"", usize::from(own == "b") % cores()),
            false => String::new(),
        };
        let ports = crate::common::two_ports(
            run,
            (device_a, "198.18.0.1", &more("a")),
            (device_b, "198.18.0.2", &more("b")),
            flows,
        );
        let connect = format!("[connect]\n{connect} = \"127.0.0.1:{}\"\ntimeout = \"1m\"\n", self.port);
        self.folder.write(&format!("{own}.toml"), &(connect + &ports))
    }

    /// Starts both.
    fn start(&self, run: [&str; 2], flows: [&str; 2]) -> [Running; 2] {
        self.start_files([self.file("a", run[0], flows[0]), self.file("b", run[1], flows[1])])
    }

    /// Starts both; the one that serves the socket first, as the driver wants it.
    fn start_files(&self, files: [String; 2]) -> [Running; 2] {
        let start = |file: &str| Running::spawn(&mut rocegen(["run", file, "--json"]));
        let mut a = start(&files[0]);
        let socket = self.folder.path("memif.sock");
        wait_until("the socket is there", || a.is_over() || std::path::Path::new(&socket).exists());
        [a, start(&files[1])]
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

fn backward(text: &str) -> String {
    text.replace("from = \"a\"\nto = \"b\"", "from = \"b\"\nto = \"a\"")
}

fn flow_of<'a>(result: &'a Value, name: &str) -> &'a Value {
    list(result, "/flows").iter().find(|f| f["name"] == name).unwrap_or_else(|| panic!("no flow {name}"))
}

#[test]
fn both_agree() {
    let _machine = Machine::take();
    for (mtu, port_mtu) in [(1024, ""), (4096, "mtu = 4200")] {
        let hosts = Hosts::new();
        let keys = format!("size = 10001\nmtu = {mtu}\nqps = 2\ndepth = 4\nmessages = 60\nverify = true");
        let verbs = ["write", "write_imm", "send", "send_imm", "read"];
        let flows: String = verbs
            .iter()
            .flat_map(|v| [flow(v, v, &keys), backward(&flow(&format!("{v}-back"), v, &keys))])
            .collect();
        let files = ["a", "b"].map(|own| {
            let file = hosts.file(own, "", &flows);
            let text = std::fs::read_to_string(&file).unwrap();
            let text = text.replace("link_wait", &format!("{port_mtu}\nlink_wait"));
            // The other one's port is as large.
            let text = text.replace("device = \"remote\"\n", &format!("device = \"remote\"\n{port_mtu}\n"));
            hosts.folder.write(&format!("{own}.toml"), &text)
        });
        let [a, b] = hosts.start_files(files).map(|r| r.end().result(0));
        for result in [&a, &b] {
            well_formed(result);
            assert_eq!(text(result, "/verdict"), "pass");
            assert_eq!(list(result, "/ports").len(), 1);
        }
        assert_eq!(int(&a, "/seed"), int(&b, "/seed"), "one for both");
        for verb in verbs {
            for (name, sender, receiver) in [(verb.to_owned(), &a, &b), (format!("{verb}-back"), &b, &a)] {
                let (sent, taken) = (flow_of(sender, &name), flow_of(receiver, &name));
                assert_eq!(int(sent, "/messages"), 120, "{name}");
                assert_eq!(int(sent, "/messages_verified"), 120, "{name}");
                assert_eq!(int(sent, "/messages_received"), 120, "{name}: {sent:#}");
                if verb != "read" {
                    assert_eq!(int(taken, "/messages_received"), 120, "{name}");
                    assert_eq!(int(taken, "/messages_verified"), 120, "{name}");
                }
                for f in [sent, taken] {
                    assert_eq!(int(f, "/verify_errors") + int(f, "/messages_failed"), 0);
                }
            }
        }
        let frames = |r: &Value, which: &str| int(r, &format!("/ports/0/{which}_packets"));
        assert_eq!((frames(&a, "tx"), frames(&b, "tx")), (frames(&b, "rx"), frames(&a, "rx")));
    }
}

/// A side that has ended still answers the other one.
#[test]
fn the_later_one_is_waited_for() {
    let _machine = Machine::take();
    let hosts = Hosts::new();
    let keys = "size = 3000\nmtu = 1024\nverify = true";
    let flows = flow("there", "write", keys) + &backward(&flow("back", "send", keys));
    let [a, b] = hosts
        .start(["duration = \"100ms\"", "duration = \"900ms\""], [&flows, &flows])
        .map(|r| r.end().result(0));
    for (result, own) in [(&a, "there"), (&b, "back")] {
        well_formed(result);
        assert!(int(flow_of(result, own), "/messages") > 0);
        assert_eq!(int(flow_of(result, own), "/retransmits"), 0);
    }
    let (sent, taken) = (flow_of(&b, "back"), flow_of(&a, "back"));
    assert_eq!(int(sent, "/messages"), int(taken, "/messages_received"));
}

#[test]
fn a_side_that_only_receives() {
    let _machine = Machine::take();
    let hosts = Hosts::new();
    let flows = flow("f", "write", "size = 3000\nmtu = 1024\nverify = true");
    let spans = "duration = \"300ms\"\nwarmup = \"100ms\"\ninterval = \"100ms\"";
    let [a, b] = hosts.start([spans, spans], [&flows, &flows]).map(Running::end);
    let (lines, a, b) = (b.stderr.lines().count(), a.result(0), b.result(0));
    let (sent, taken) = (flow_of(&a, "f"), flow_of(&b, "f"));
    assert_eq!(int(sent, "/messages") + int(sent, "/messages_warmup"), int(taken, "/messages_received"));
    assert_eq!(int(sent, "/messages_received"), int(taken, "/messages_received"));
    assert!((1..200).contains(&lines), "a line each interval, not {lines}");
}

#[test]
fn sides_that_differ() {
    let _machine = Machine::take();
    let hosts = Hosts::new();
    let flows = [8, 16].map(|size| flow("f", "write", &format!("size = {size}\nmessages = 1")));
    let both = hosts.start(["", ""], [&flows[0], &flows[1]]).map(Running::end);
    for (ended, own, other) in [(&both[0], 8, 16), (&both[1], 16, 8)] {
        let line = ended.error(3);
        for word in [
            "connect: ",
            "flow \"f\" differs",
            &format!("size {other} "),
            &format!("size {own} "),
            "there",
            "here",
        ] {
            assert!(line.contains(word), "no `{word}` in: {line}");
        }
    }
    let hosts = Hosts::new();
    let flows = ["f", "g"].map(|name| flow(name, "write", "size = 8\nmessages = 1"));
    let both = hosts.start(["", ""], [&flows[0], &flows[1]]).map(Running::end);
    for (ended, name) in both.iter().zip(["f", "g"]) {
        assert!(ended.error(3).contains(&format!("knows no flow \"{name}\"")), "{}", ended.stderr);
    }
}

const SEGV: i32 = 11;

/// Starts both sides of an endless flow, ends `victim` with a signal, and returns the ends of both.
///
/// The memif driver of DPDK 22.11 unmaps what its own receive function or its interrupt thread may
/// be reading when either side goes away, and crashes then, rarely: that says nothing of rocegen.
fn cut_off(victim: usize, signal: &str) -> [Ended; 2] {
    for _ in 0..4 {
        let both = cut_off_once(victim, signal);
        if both.iter().all(|side| side.status.signal() != Some(SEGV)) {
            return both;
        }
        println!("note: the memif driver crashed; again");
    }
    cut_off_once(victim, signal)
}

fn cut_off_once(victim: usize, signal: &str) -> [Ended; 2] {
    let hosts = Hosts::new();
    let flows = flow("f", "write", "size = 3000\nmtu = 1024").replace("ack_timeout = 20", "ack_timeout = 14");
    let spans = "duration = \"10m\"\ninterval = \"50ms\"\ndrain = \"1m\"";
    let mut both = hosts.start([spans, spans], [&flows, &flows]);
    for run in &mut both {
        run.hears(" f  ");
    }
    both[victim].signal(signal);
    both.map(Running::end)
}

/// O08.
#[test]
fn the_receiver_dies() {
    let _machine = Machine::take();
    let [a, b] = cut_off(1, "KILL");
    assert_eq!(b.status.signal(), Some(9));
    let result = a.result(1);
    assert_eq!(text(&result, "/verdict"), "fail");
    assert!(int(&result, "/flows/0/messages_failed") > 0, "{:#}", result["flows"]);
    let reasons =
        list(&result, "/reasons").iter().map(|r| r.as_str().unwrap()).collect::<Vec<_>>().join("\n");
    for word in ["RETRY_EXC", "the peer does not answer", "connect: ", "closed the connection"] {
        assert!(reasons.contains(word), "no `{word}` in: {reasons}");
    }
}

#[test]
fn the_sender_dies() {
    let _machine = Machine::take();
    let [a, b] = cut_off(0, "KILL");
    assert_eq!(a.status.signal(), Some(9));
    let result = b.result(1);
    let reasons = list(&result, "/reasons");
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].as_str().unwrap().contains("closed the connection"), "{reasons:?}");
}

#[test]
fn one_side_is_interrupted() {
    let _machine = Machine::take();
    for victim in [0, 1] {
        let both = cut_off(victim, "INT");
        assert_eq!(text(&both[victim].result(130), "/verdict"), "interrupted");
        let result = both[1 - victim].result(1);
        assert!(result["reasons"].to_string().contains("closed the connection"), "{:#}", result["reasons"]);
    }
}

/// A scenario that is to meet whoever listens on `port`.
fn to_meet(folder: &Folder, port: u16) -> String {
    let flows = flow("f", "write", "size = 8\nmessages = 1");
    let ports =
        crate::common::two_ports("", ("net_null0", "198.18.0.1", ""), ("remote", "198.18.0.2", ""), &flows);
    folder.write("x.toml", &format!("[connect]\npeer = \"localhost:{port}\"\ntimeout = \"700ms\"\n{ports}"))
}

/// What a rocegen says that meets somebody who does `act`.
fn meets(act: impl FnOnce(TcpStream, String) + Send + 'static) -> String {
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = to_meet(&folder, listener.local_addr().unwrap().port());
    let other: JoinHandle<()> = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut hello = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut hello).unwrap();
        act(stream, hello);
    });
    let ended = run(["run", &file]);
    other.join().unwrap();
    ended.error(3).to_owned()
}

/// F14.
#[test]
fn peers_that_are_none() {
    let _machine = Machine::take();
    let says = |line: &str, words: &[&str]| {
        for word in words {
            assert!(line.contains(word), "no `{word}` in: {line}");
        }
    };
    let folder = Folder::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ended = run(["run", &to_meet(&folder, nobody)]);
    says(ended.error(3), &["connect: no answer from localhost:", "within 700ms", "refused"]);

    let silent = meets(|stream, _| {
        std::thread::sleep(Duration::from_secs(2));
        drop(stream);
    });
    says(&silent, &["step \"hello\"", "silent"]);
    says(&meets(|stream, _| drop(stream)), &["step \"hello\"", "closed the connection"]);
    let half = |mut stream: TcpStream, hello: String| {
        let _ = stream.write_all(&hello.as_bytes()[..20]);
    };
    says(&meets(half), &["step \"hello\"", "stopped in mid-sentence"]);
    let other_version = |mut stream: TcpStream, hello: String| {
        let _ = stream.write_all(hello.replace("rocegen-connect-1", "rocegen-connect-9").as_bytes());
    };
    says(&meets(other_version), &["rocegen-connect-9", "use one version on both sides"]);
    says(
        &meets(|mut stream, _| drop(stream.write_all(b"GET / HTTP/1.1\r\n"))),
        &["step \"hello\"", "not understood"],
    );
    // It says hello, and no more.
    let no_more = |mut stream: TcpStream, hello: String| {
        let _ = stream.write_all(hello.as_bytes());
        std::thread::sleep(Duration::from_secs(2));
    };
    says(&meets(no_more), &["step \"ready\"", "silent"]);
}

#[test]
fn nobody_comes() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let text = std::fs::read_to_string(to_meet(&folder, port)).unwrap();
    let file = folder.write("x.toml", &text.replace("peer = \"localhost", "listen = \"127.0.0.1"));
    let ended = run(["run", &file]);
    assert!(ended.error(3).contains(&format!("cannot listen on 127.0.0.1:{port}")), "{}", ended.stderr);
    drop(taken);
    let ended = run(["run", &file]);
    assert!(ended.error(3).contains("no peer came to 127.0.0.1:"), "{}", ended.stderr);
}

#[test]
fn waiting_for_the_other_can_be_interrupted() {
    let _machine = Machine::take();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = Folder::new();
    let patient = ["--set", "connect.timeout=10m"];
    // One that answers the call and says nothing, one that does not answer, one that listens.
    let met = to_meet(&folder, listener.local_addr().unwrap().port());
    let mut run = Running::spawn(rocegen(["run", &met]).args(patient));
    let (stream, _) = listener.accept().unwrap();
    let mut hello = String::new();
    BufReader::new(stream.try_clone().unwrap()).read_line(&mut hello).unwrap();
    assert!(!run.is_over());
    run.signal("INT");
    let ended = run.end();
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(130), ""), "{}", ended.stderr);
    drop((stream, listener));

    let text = std::fs::read_to_string(&met).unwrap();
    let listening = folder.write("y.toml", &text.replace("peer = \"localhost", "listen = \"127.0.0.1"));
    for file in [met, listening] {
        let run = Running::spawn(rocegen(["run", &file]).args(patient));
        std::thread::sleep(Duration::from_millis(1500));
        run.signal("INT");
        let ended = run.end();
        assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    }
    // Nobody is left who listens.
    wait_until("the port is free", || {
        let port: u16 = text.split("localhost:").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        TcpListener::bind(("127.0.0.1", port)).is_ok()
    });
}

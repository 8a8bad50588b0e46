//! Ctrl-C and SIGTERM at any moment: the run ends soon, in good order, and says what it has.

use crate::common::{Ended, Folder, Machine, Running, flow, int, ring_pair, rocegen, text, two_ports};
use crate::configs::well_formed;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

/// Two seconds are promised; a machine that has other work may need a little more.
const SOON: Duration = Duration::from_secs(4);

/// Sends the signal; the run must end soon.
fn interrupt(run: Running, signal: &str) -> Ended {
    let sent = Instant::now();
    run.signal(signal);
    let ended = run.end();
    assert!(sent.elapsed() < SOON, "{:?} after {signal}", sent.elapsed());
    ended
}

/// What an interrupted run reports.
fn judge(ended: &Ended) -> serde_json::Value {
    let result = ended.result(130);
    well_formed(&result);
    assert_eq!(text(&result, "/verdict"), "interrupted");
    result
}

fn endless(folder: &Folder) -> String {
    let flows = flow("w", "write", "size = 4000\nmtu = 1024\nverify = true\nqps = 2")
        + &flow("r", "read", "size = 100");
    folder.write("x.toml", &ring_pair("duration = \"10m\"\ninterval = \"20ms\"", &flows))
}

/// Nobody answers, and nobody ever gives up.
fn stuck(folder: &Folder) -> String {
    let flows = flow("f", "write", "size = 8\ndepth = 3").replace("ack_timeout = 20", "ack_timeout = 0");
    let run = "duration = \"100ms\"\ninterval = \"100ms\"\ndrain = \"10m\"";
    folder.write(
        "x.toml",
        &two_ports(run, ("net_null0", "198.18.0.1", ""), ("net_null1", "198.18.0.2", ""), &flows),
    )
}

/// O01.
#[test]
fn at_any_moment() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let file = endless(&folder);
    for (i, delay) in [0, 10, 30, 100, 200, 300, 400, 600, 1000].into_iter().enumerate() {
        let (signal, number) = if i % 2 == 0 { ("INT", 2) } else { ("TERM", 15) };
        let run = Running::spawn(&mut rocegen(["run", &file, "--json"]));
        std::thread::sleep(Duration::from_millis(delay));
        let ended = interrupt(run, signal);
        // Before it takes signals over, one ends it as any process.
        if ended.status.signal() == Some(number) && ended.stderr.is_empty() {
            continue;
        }
        assert_eq!(ended.code(), Some(130), "{delay} ms: {ended:?}");
        if !ended.stdout.is_empty() {
            judge(&ended);
        }
    }
}

#[test]
fn what_was_measured_is_reported_and_written() {
    let _machine = Machine::take();
    for signal in ["INT", "TERM"] {
        let folder = Folder::new();
        let (file, out) = (endless(&folder), folder.path("out"));
        let pcap = folder.path("x.pcapng");
        let args = ["run", &file, "--json", "--out", &out, "--pcap", &pcap, "--pcap-count", "100"];
        let mut run = Running::spawn(&mut rocegen(args));
        run.hears(" r  ");
        let ended = interrupt(run, signal);
        let result = judge(&ended);
        for f in 0..2 {
            assert!(int(&result, &format!("/flows/{f}/messages")) > 0, "{:#}", result["flows"]);
            assert_eq!(int(&result, &format!("/flows/{f}/messages_failed")), 0);
            assert_eq!(int(&result, &format!("/flows/{f}/messages_outstanding")), 0, "it is drained");
        }
        assert_eq!(std::fs::read_to_string(format!("{out}/result.json")).unwrap(), ended.stdout);
        assert!(std::fs::metadata(format!("{out}/latency.hlog")).unwrap().len() > 200);
        assert!(std::fs::metadata(&pcap).unwrap().len() > 1000);
    }
}

#[test]
fn in_the_warm_up() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let file = endless(&folder);
    let run = Running::spawn(&mut rocegen(["run", &file, "--json", "--set", "run.warmup=10m"]));
    std::thread::sleep(Duration::from_secs(2));
    let result = judge(&interrupt(run, "INT"));
    assert!(int(&result, "/flows/0/messages_warmup") > 0);
}

#[test]
fn in_the_drain() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let mut run = Running::spawn(&mut rocegen(["run", &stuck(&folder), "--json"]));
    run.hears("0.1s f ");
    std::thread::sleep(Duration::from_millis(300));
    let result = judge(&interrupt(run, "INT"));
    assert_eq!(int(&result, "/flows/0/messages_outstanding"), 3);
}

#[test]
fn the_second_one_ends_it_at_once() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let file = stuck(&folder);
    for _ in 0..5 {
        let mut run = Running::spawn(&mut rocegen(["run", &file, "--json"]));
        run.hears("0.1s f ");
        // The first one waits half a second for what is outstanding.
        run.signal("INT");
        std::thread::sleep(Duration::from_millis(50));
        let ended = interrupt(run, "INT");
        assert_eq!(ended.code(), Some(130), "{ended:?}");
        assert_eq!(ended.stdout, "", "no time for a report");
    }
}

/// A memif port has no link as long as nobody comes to its socket.
#[test]
fn while_it_waits_for_a_link() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let device = format!("net_memif0,role=server,socket={},socket-abstract=no", folder.path("x.sock"));
    let nobody = ("none", "198.18.0.2", "mac = \"02:00:00:00:00:02\"");
    let flows =
        flow("f", "write", "size = 8\nmessages = 1").replace("ack_timeout = 20", "transport = \"uc\"");
    let file = folder
        .write("x.toml", &two_ports("", (&device, "198.18.0.1", "link_wait = \"10m\""), nobody, &flows));
    let run = Running::spawn(&mut rocegen(["run", &file]));
    std::thread::sleep(Duration::from_millis(1500));
    let ended = interrupt(run, "INT");
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(130), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("waiting for the link"), "{}", ended.stderr);
}

/// Clients that wait for a server, and a server that waits for a client.
#[test]
fn programs_without_a_scenario_end_the_same_way() {
    let _machine = Machine::take();
    let port = ["-d", "net_null0,no-rx=1", "--ip", "198.18.0.1/24"];
    let there = ["--neighbour", "198.18.0.2=02:00:00:00:00:02"];
    let asks: &[&[&str]] = &[
        &["ucmatose", "198.18.0.2"],
        &["udaddy", "198.18.0.2"],
        &["rping", "-a", "198.18.0.2"],
        &["perftest", "ib_write_bw", "--oob", "127.0.0.1", "-p", "18597"],
    ];
    for words in asks {
        let (command, more) = words.split_at(1);
        // Nobody has its address: asked for, or known and silent.
        for known in [&[][..], &there] {
            let code = [500, 2000, 5000].into_iter().find_map(|delay| {
                let run = Running::spawn(rocegen(command).args(port).args(known).args(more));
                std::thread::sleep(Duration::from_millis(delay));
                let ended = interrupt(run, "INT");
                // Before it takes signals over, one ends it as any process; too late, it has given up.
                assert!(ended.code() != Some(0), "{words:?}: {ended:?}");
                ended.stderr.contains("interrupted").then(|| ended.code())
            });
            assert_eq!(code, Some(Some(130)), "{words:?} {known:?}");
        }
    }
}

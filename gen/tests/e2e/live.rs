//! The view of a run on a terminal: what is on the screen, what keys do, and that the terminal is given back.

use crate::common::{Ended, Folder, Machine, flow, int, list, ring_pair, rocegen, text, wait_until};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const XTERM: &str = "xterm-256color";

/// Columns and rows at the start.
const SIZE: (u16, u16) = (80, 24);

/// A run in a terminal.
struct Watched {
    child: Child,
    keyboard: File,
    /// The side that the run has.
    terminal: File,
    /// What came out, and the screen that it makes.
    seen: Arc<Mutex<(Vec<u8>, vt100::Parser)>>,
}

impl Watched {
    /// Starts it in a terminal of the kind `term`.
    fn start(command: &mut Command, term: &str) -> Watched {
        Watched::start_into(command, term, None)
    }

    /// The same; standard output goes elsewhere when `stdout` says so.
    fn start_into(command: &mut Command, term: &str, stdout: Option<Stdio>) -> Watched {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        let end = || Stdio::from(OwnedFd::from(terminal.try_clone().unwrap()));
        resize(&ours, SIZE);
        command.env("TERM", term).env("LANG", "C.UTF-8").env_remove("LC_ALL");
        command.stdin(end()).stdout(stdout.unwrap_or_else(end)).stderr(end());
        let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let ours = File::from(ours);
        let seen = Arc::new(Mutex::new((Vec::new(), blank(SIZE))));
        let (sink, mut source) = (Arc::clone(&seen), ours.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(n @ 1..) = source.read(&mut some) {
                let mut seen = sink.lock().unwrap();
                seen.0.extend_from_slice(&some[..n]);
                seen.1.process(&some[..n]);
            }
        });
        Watched { child, keyboard: ours, terminal, seen }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows something.
    fn sees(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let (child, seen) = (&mut self.child, &self.seen);
        let began = std::time::Instant::now();
        loop {
            last.clear();
            last.push_str(&seen.lock().unwrap().1.screen().contents());
            if is_so(&last) {
                return last;
            }
            let over = child.try_wait().unwrap();
            assert!(
                over.is_none() && began.elapsed() < Duration::from_secs(60),
                "not seen: {what}, {over:?}\n{last}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn sees_words(&mut self, words: &str) -> String {
        self.sees(words, |screen| screen.contains(words))
    }

    /// Waits for its end: what is on the terminal then.
    fn end(mut self) -> Ended {
        let mut status = None;
        wait_until("the run ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        // The last words are on their way.
        std::thread::sleep(Duration::from_millis(200));
        let seen = self.seen.lock().unwrap();
        let screen = seen.1.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "the terminal is given back");
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "{modes:?}");
        Ended {
            status: status.unwrap(),
            stdout: String::new(),
            stderr: String::from_utf8_lossy(&seen.0).into_owned(),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resize(terminal: impl AsFd, (columns, rows): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

fn blank((columns, rows): (u16, u16)) -> vt100::Parser {
    vt100::Parser::new(NonZero::new(rows).unwrap(), NonZero::new(columns).unwrap(), 0)
}

/// One flow of each kind of pace, and none near what a busy machine can do.
fn scenario(folder: &Folder) -> String {
    let flows = flow("due", "write", "size = 64\nrate = \"2kmsg/s\"\ndepth = 256")
        + &flow("paced", "send", "size = 4000\nmtu = 1024\nrate = \"40Mbps\"\nverify = true")
        + &flow("free", "read", "size = 8\ndepth = 1");
    let run = "duration = \"2m\"\nwarmup = \"100ms\"\ninterval = \"500ms\"";
    folder.write("x.toml", &ring_pair(run, &flows))
}

/// A figure of a flow on the screen: 0 L1, 1 goodput, 2 messages per second.
fn figure(screen: &str, flow: &str, column: usize) -> Option<f64> {
    let line = screen.lines().find(|l| l.starts_with(flow))?;
    line.split_whitespace().nth(1 + column)?.parse().ok()
}

#[test]
fn keys_drive_the_run_and_the_result_says_so() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let (file, out) = (scenario(&folder), folder.path("out"));
    let mut run = Watched::start(&mut rocegen(["run", &file, "--out", &out]), XTERM);
    let near = |flow: &'static str, column, want: f64| {
        move |screen: &str| figure(screen, flow, column).is_some_and(|got| (got / want - 1.0).abs() < 0.1)
    };
    let screen = run.sees("rates", near("due", 2, 2_000.0));
    assert!(screen.starts_with("rocegen "), "{screen}");
    for word in ["flow", "L1 Gb/s", "p99", "CNPs", "resent", "measuring", " of 2:00", "busy  core", "p pause"]
    {
        assert!(screen.contains(word), "{word}\n{screen}");
    }
    assert!(!screen.contains("msg/s  p99"), "no lines as elsewhere\n{screen}");
    // A pacer makes up for little: on a machine that has other work it is the most that counts.
    let paced = |most: f64| {
        move |screen: &str| figure(screen, "paced", 0).is_some_and(|got| got > 0.0 && got < most * 1.15)
    };
    run.sees("what it is paced to", paced(0.04));

    run.press("p");
    run.sees_words("PAUSED");
    for name in ["due", "paced", "free"] {
        run.sees("nothing", |screen| figure(screen, name, 2) == Some(0.0));
    }
    std::thread::sleep(Duration::from_millis(500));
    run.press(" ");
    run.sees("on", |screen| !screen.contains("PAUSED"));
    run.sees("the rate again", near("due", 2, 2_000.0));
    // It has its own rate for long enough to be held to a share of that.
    std::thread::sleep(Duration::from_millis(2_500));

    run.press("---\x1b[B");
    run.sees_words("rate 60 %");
    run.press("+");
    run.sees_words("rate 70 %");
    run.press("-----");
    run.sees_words("rate 20 %");
    run.sees("a fifth of the messages", near("due", 2, 400.0));
    run.sees("a fifth of the rate", paced(0.008));

    run.press("?");
    run.sees_words("end the run in good order");
    run.seen.lock().unwrap().1 = blank((50, 12));
    resize(&run.keyboard, (50, 12));
    run.press("?");
    let screen = run
        .sees("a smaller picture", |s| s.lines().count() <= 12 && s.contains("due") && s.contains("p pause"));
    assert!(!screen.contains("CNPs"), "no room for that\n{screen}");

    run.press("q");
    let ended = run.end();
    assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    let last = &ended.stderr[ended.stderr.rfind("\x1b[?1049l").expect("the view has gone")..];
    for words in ["verdict: interrupted", "by hand: paused for", "messages/s", "due  "] {
        assert!(last.contains(words), "{words}: {last}");
    }
    let page = std::fs::read_to_string(format!("{out}/report.html")).unwrap();
    assert!(page.contains("What somebody did at the keyboard"));
    judge(&serde_json::from_str(&std::fs::read_to_string(format!("{out}/result.json")).unwrap()).unwrap());
}

fn judge(result: &Value) {
    let by_hand = &result["by_hand"];
    let paused = by_hand["paused_s"].as_f64().unwrap();
    assert!((0.5..30.0).contains(&paused), "{by_hand:#}");
    assert_eq!((int(by_hand, "/rate_pct_min"), int(by_hand, "/rate_pct_max")), (20, 100));
    let acts: Vec<&str> = list(by_hand, "/acts").iter().map(|a| text(a, "/act")).collect();
    assert_eq!(acts[..2], ["pause", "go_on"]);
    assert!(acts[2..].iter().all(|a| *a == "rate") && acts.len() >= 5, "{by_hand:#}");
    assert_eq!(int(by_hand, &format!("/acts/{}/rate_pct", acts.len() - 1)), 20);
    assert!(text(by_hand, "/text").contains("s, on at "), "{by_hand:#}");
    assert_eq!(text(result, "/limits/0/by"), "by_hand");
    // Workers tell more often where somebody watches, and the result has the spans of any other run.
    let ends: Vec<f64> = list(result, "/timeline/ends_s").iter().filter_map(Value::as_f64).collect();
    assert!(ends.len() > 1 && ends.windows(2).all(|w| w[1] - w[0] > 0.4), "a 250th of two minutes: {ends:?}");
    let due = &result["flows"][0];
    let longest = int(due, "/latency_ns/max") as f64 / 1e9;
    assert!(longest < paused / 2.0, "a pause is in no latency: {longest} s, paused for {paused} s");
    for f in 0..3 {
        assert_eq!(int(result, &format!("/flows/{f}/messages_failed")), 0);
    }
}

/// What others say meanwhile - here as DPDK would, on the process's standard error - is seen, and said at the end.
#[test]
fn what_is_said_meanwhile_garbles_nothing() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let file = scenario(&folder);
    let mut command = rocegen(["run", &file, "--duration", "3s"]);
    let mut run = Watched::start(command.env("NO_COLOR", "1"), XTERM);
    run.sees_words("measuring");
    let stderr = format!("/proc/{}/fd/2", run.child.id());
    let mut stderr = File::options().append(true).open(stderr).unwrap();
    stderr.write_all(b"EAL: something \x1b[31mis\x1b[0m odd\n").unwrap();
    let screen = run.sees_words("something is odd");
    assert!(screen.contains("p pause") && screen.contains("due"), "{screen}");
    let ended = run.end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let (view, after) = ended.stderr.split_at(ended.stderr.rfind("\x1b[?1049l").unwrap());
    assert!(!view.contains("\x1b[31m"), "nobody else draws: {view}");
    assert!(!view.contains("\x1b[1m") && !view.contains("\x1b[2m"), "no colours where none are wanted");
    assert!(after.contains("EAL: something \x1b[31mis\x1b[0m odd"), "{after}");
    assert!(after.contains("verdict: pass") && !after.contains("by hand"), "{after}");
}

/// Ctrl-C is a signal: it works when nobody reads keys, and the second one gives the terminal back as well.
#[test]
fn signals_give_the_terminal_back() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let file = scenario(&folder);
    for times in [1, 2] {
        let mut run = Watched::start(&mut rocegen(["run", &file]), XTERM);
        run.sees_words("measuring");
        for _ in 0..times {
            let pid = run.child.id().to_string();
            assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
            std::thread::sleep(Duration::from_millis(1));
        }
        let ended = run.end();
        assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    }
}

/// Where there is no terminal, or no view is wanted, there is nothing but text.
#[test]
fn elsewhere_there_are_lines() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let file = scenario(&folder);
    let start = |more: &[&str], term: &str| {
        let args = ["run", &file, "--duration", "1200ms"];
        let ended = Watched::start(&mut rocegen(args.iter().chain(more)), term).end();
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        assert!(!ended.stderr.contains('\x1b'), "{}", ended.stderr);
        ended.stderr
    };
    for said in [start(&["--no-live"], XTERM), start(&[], "dumb")] {
        assert!(said.contains("s due ") && said.contains("resent 0"), "{said}");
    }
    assert!(!start(&["-q"], XTERM).contains("s due "));
    // Standard error is a pipe; TERM says nothing of that.
    let piped = rocegen(["run", &file, "--duration", "600ms"])
        .env("TERM", XTERM)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    for bytes in [piped.stdout, piped.stderr] {
        assert!(!bytes.contains(&0x1B), "{}", String::from_utf8_lossy(&bytes));
    }
}

/// The result goes to a file, and the view is seen all the same.
#[test]
fn with_json_the_view_is_on_standard_error() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let file = scenario(&folder);
    let kept = folder.path("x.json");
    let stdout = Stdio::from(File::create(&kept).unwrap());
    let mut run =
        Watched::start_into(&mut rocegen(["run", &file, "--json", "--duration", "2s"]), XTERM, Some(stdout));
    run.sees_words("measuring");
    assert_eq!(run.end().code(), Some(0));
    let result: Value = serde_json::from_str(&std::fs::read_to_string(kept).unwrap()).unwrap();
    assert_eq!(text(&result, "/verdict"), "pass");
    assert!(result.get("by_hand").is_none());
}

//! Starts rocegen and looks at what it says and leaves.

use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The command under test.
pub(crate) const ROCEGEN: &str = env!("CARGO_BIN_EXE_rocegen");
/// Longer than any run here takes on a machine that has other work.
const PATIENCE: Duration = Duration::from_secs(120);

/// The project's folder.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The machine, for one test: workers poll, and two runs at once would starve each other.
///
/// A file, so that test binaries and runners with a process for each test wait as well.
pub(crate) struct Machine(File);

impl Machine {
    pub(crate) fn take() -> Machine {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("machine.lock");
        let file = File::create(path).expect("the lock file");
        file.lock().expect("the lock");
        Machine(file)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The one JSON object on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}\n{self:?}"))
    }

    /// The same of a run that must have ended with `code`.
    pub(crate) fn result(&self, code: i32) -> Value {
        assert_eq!(self.code(), Some(code), "{}\n{}", self.stdout, self.stderr);
        self.json()
    }

    /// The one line of an error; whatever else was said is a failure of the test.
    pub(crate) fn error(&self, code: i32) -> &str {
        assert_eq!(self.code(), Some(code), "{}\n{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "", "{}", self.stderr);
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "one line: {}", self.stderr);
        assert!(lines[0].starts_with("error: "), "{}", lines[0]);
        lines[0]
    }
}

/// A run that goes on.  Ended with the test at the latest.
pub(crate) struct Running {
    child: Child,
    stdout: Heard,
    stderr: Heard,
}

impl Running {
    pub(crate) fn spawn(command: &mut Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let stdout = Heard::from(child.stdout.take().expect("a pipe"));
        let stderr = Heard::from(child.stderr.take().expect("a pipe"));
        Running { child, stdout, stderr }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        // It may have ended just now.
        let _ = Command::new("kill").args(["-s", name, &pid]).stderr(Stdio::null()).status().expect("kill");
    }

    /// Waits until it has said `words` on standard error.
    pub(crate) fn hears(&mut self, words: &str) {
        wait_until(&format!("`{words}` is said"), || {
            let said = self.stderr.so_far().contains(words);
            assert!(said || !self.is_over(), "ended, and had said only: {}", self.stderr.so_far());
            said
        });
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("wait").is_some()
    }

    /// All that it has said on standard output, after its end.
    pub(crate) fn said(&mut self) -> String {
        self.stdout.all()
    }

    /// The signal that has ended it, if one has.
    pub(crate) fn died_of(&mut self) -> Option<i32> {
        self.child.try_wait().expect("wait")?.signal()
    }

    /// Waits for its end and looks whether it left anything.
    pub(crate) fn end(mut self) -> Ended {
        wait_until("the process ends", || self.is_over());
        let status = self.child.wait().expect("wait");
        let ended = Ended { status, stdout: self.stdout.all(), stderr: self.stderr.all() };
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        assert_eq!(left_by(self.child.id()), Vec::<PathBuf>::new());
        ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What comes out of a pipe.
struct Heard {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Heard {
    fn from(mut pipe: impl Read + Send + 'static) -> Heard {
        let text = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(n @ 1..) = pipe.read(&mut some) {
                sink.lock().expect("the other thread lives").extend_from_slice(&some[..n]);
            }
        });
        Heard { text, reader: Some(reader) }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("the other thread lives")).into_owned()
    }

    fn all(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("a reader");
        }
        self.so_far()
    }
}

/// Waits, with patience but not for ever.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Folders that DPDK made for the process `pid`.
fn left_by(pid: u32) -> Vec<PathBuf> {
    let own = format!("rocegen-{pid}-");
    ["/var/run/dpdk", "/tmp/dpdk"]
        .iter()
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&own)))
        .collect()
}

/// `rocegen` with arguments, in the project's folder.
pub(crate) fn rocegen<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(ROCEGEN);
    command.args(args).current_dir(root()).env_remove("RUST_LOG").env_remove("XDG_RUNTIME_DIR");
    command
}

/// Runs it to its end.
pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Ended {
    Running::spawn(&mut rocegen(args)).end()
}

/// A folder for the files of one test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::Builder::new().prefix("rocegen-e2e-").tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Writes a file; its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("a file");
        path
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("the folder");
        let mut names: Vec<_> =
            entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// Two ports joined by rings and the flows between them.
pub(crate) fn ring_pair(run: &str, flows: &str) -> String {
    two_ports(run, ("ring:0", "198.18.0.1", ""), ("ring:0", "198.18.0.2", ""), flows)
}

/// Ports `a` and `b`, each a device, an address and further keys.
pub(crate) fn two_ports(run: &str, a: (&str, &str, &str), b: (&str, &str, &str), flows: &str) -> String {
    let port = |name: &str, (device, ip, more): (&str, &str, &str)| {
        format!("[[port]]\nname = \"{name}\"\ndevice = \"{device}\"\nip = \"{ip}\"\n{more}\n")
    };
    format!("[run]\n{run}\n{}{}{flows}\n", port("a", a), port("b", b))
}

/// A flow from `a` to `b` with a patient timer: a worker may be without a core for a while.
pub(crate) fn flow(name: &str, verb: &str, more: &str) -> String {
    format!(
        "[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\nverb = \"{verb}\"\nack_timeout = 20\n{more}\n"
    )
}

/// The number at `path`, a JSON pointer.
pub(crate) fn int(v: &Value, path: &str) -> u64 {
    v.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no number at {path} in {v:#}"))
}

pub(crate) fn float(v: &Value, path: &str) -> f64 {
    v.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {path} in {v:#}"))
}

pub(crate) fn text<'a>(v: &'a Value, path: &str) -> &'a str {
    v.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("no text at {path} in {v:#}"))
}

pub(crate) fn list<'a>(v: &'a Value, path: &str) -> &'a [Value] {
    v.pointer(path).and_then(Value::as_array).unwrap_or_else(|| panic!("no list at {path} in {v:#}"))
}

/// A Python that has `module`; `None`, and a word on why, when there is none.
pub(crate) fn python_with(module: &str) -> Option<PathBuf> {
    let given = std::env::var_os("ROCEGEN_TEST_PYTHON").map(PathBuf::from);
    let candidates =
        given.into_iter().chain([root().join("target/test-venv/bin/python3"), PathBuf::from("python3")]);
    let found = candidates.into_iter().find(|python| {
        let import = format!("import {module}");
        let probe = Command::new(python).args(["-c", &import]).stderr(Stdio::null()).status();
        probe.is_ok_and(|s| s.success())
    });
    if found.is_none() {
        println!("skipped: no python3 with {module}; scripts/setup makes one, ROCEGEN_TEST_PYTHON names one");
    }
    found
}

/// What a tool of the machine prints; `None`, and a word on why, when it is not there.
pub(crate) fn tool(program: &str, args: &[&str]) -> Option<String> {
    match Command::new(program).args(args).stdin(Stdio::null()).output() {
        Err(e) => {
            println!("skipped: {program}: {e}");
            None
        }
        Ok(out) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert!(out.status.success(), "{program} {args:?}: {}", text(&out.stderr));
            Some(text(&out.stdout))
        }
    }
}

pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

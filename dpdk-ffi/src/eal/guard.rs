//! What the start of the EAL does to its caller, and how it is undone.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// The CPUs that the calling thread may run on.
pub(super) struct Affinity(Option<libc::cpu_set_t>);

impl Affinity {
    pub(super) fn save() -> Self {
        // SAFETY: a cpu_set_t of zeros is a valid empty set, and the call writes no more than its size.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let rc = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
            Self((rc == 0).then_some(set))
        }
    }

    /// The EAL pins the thread that starts it; threads made later would inherit that.
    pub(super) fn restore(self) {
        if let Some(set) = self.0 {
            // SAFETY: reads a valid set; 0 is the calling thread.
            unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
        }
    }
}

/// Numbers of the CPUs that the calling thread may run on; `[0]` if unknown.
pub(super) fn allowed_cpus() -> Vec<usize> {
    let Some(set) = Affinity::save().0 else { return vec![0] };
    // SAFETY: reads a valid set at indices below its size.
    let cpus: Vec<_> =
        (0..libc::CPU_SETSIZE as usize).filter(|c| unsafe { libc::CPU_ISSET(*c, &set) }).collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Standard output of the process leads nowhere and standard error into a
/// file in memory while this lives.
pub(super) struct Silence {
    saved: Vec<(RawFd, OwnedFd)>,
    errors: Option<File>,
}

impl Silence {
    /// Does what it can: without it, DPDK's messages are seen, no more.
    pub(super) fn begin() -> Self {
        flush();
        let mut silence = Self { saved: Vec::new(), errors: None };
        // SAFETY: makes a new descriptor, which the File then owns.
        silence.errors = unsafe {
            let fd = libc::memfd_create(c"eal-output".as_ptr(), libc::MFD_CLOEXEC);
            (fd >= 0).then(|| File::from_raw_fd(fd))
        };
        let nowhere = File::options().write(true).open("/dev/null").ok();
        silence.redirect(libc::STDOUT_FILENO, nowhere.as_ref().map(File::as_raw_fd));
        silence.redirect(libc::STDERR_FILENO, silence.errors.as_ref().map(File::as_raw_fd));
        silence.speak_on_exit();
        silence
    }

    /// Restores both and returns what was written to standard error meanwhile.
    pub(super) fn end(mut self) -> String {
        let mut bytes = Vec::new();
        self.restore();
        if let Some(mut errors) = self.errors.take() {
            let _ = errors.seek(SeekFrom::Start(0)).and_then(|_| errors.read_to_end(&mut bytes));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn redirect(&mut self, fd: RawFd, target: Option<RawFd>) {
        let Some(target) = target else { return };
        // SAFETY: the copy is new and owned from here on; `fd` leads elsewhere but stays open.
        unsafe {
            let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3);
            if copy >= 0 {
                self.saved.push((fd, OwnedFd::from_raw_fd(copy)));
                libc::dup2(target, fd);
            }
        }
    }

    /// DPDK ends the process for some mistakes: its last words must not be lost.
    fn speak_on_exit(&self) {
        let stderr = self.saved.iter().find(|(fd, _)| *fd == libc::STDERR_FILENO);
        if let (Some((_, copy)), Some(errors)) = (stderr, &self.errors) {
            TO.store(copy.as_raw_fd(), Ordering::SeqCst);
            FROM.store(errors.as_raw_fd(), Ordering::SeqCst);
            // SAFETY: registers a function that lives as long as the process.
            unsafe { libc::atexit(last_words) };
        }
    }

    fn restore(&mut self) {
        FROM.store(-1, Ordering::SeqCst);
        flush();
        for (fd, copy) in self.saved.drain(..) {
            // SAFETY: puts back the descriptor that `redirect` saved.
            unsafe { libc::dup2(copy.as_raw_fd(), fd) };
        }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Where the captured errors are, and where they go if the process ends while
/// they are captured; -1 if they are not.
static FROM: AtomicI32 = AtomicI32::new(-1);
static TO: AtomicI32 = AtomicI32::new(-1);

extern "C" fn last_words() {
    let from = FROM.swap(-1, Ordering::SeqCst);
    if from < 0 {
        return;
    }
    flush();
    // SAFETY: the Silence that owns both lives, for the process ends within it; not closed here.
    let (from, to) = unsafe {
        let own = |fd| ManuallyDrop::new(File::from_raw_fd(fd));
        (own(from), own(TO.load(Ordering::SeqCst)))
    };
    let mut text = String::new();
    let _ = (&*from).seek(SeekFrom::Start(0)).and_then(|_| (&*from).read_to_string(&mut text));
    text += &super::log::take();
    let _ = writeln!(&*to, "DPDK ended the process: {}", super::log::join_last(&text));
}

/// What Rust and C have buffered goes where it was meant to.
fn flush() {
    let _ = std::io::stdout().flush();
    // SAFETY: a null pointer means all streams, each of which has a lock of its own.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_cpu_is_allowed() {
        let before = allowed_cpus();
        assert!(!before.is_empty());
        Affinity::save().restore();
        assert_eq!(allowed_cpus(), before);
    }
}

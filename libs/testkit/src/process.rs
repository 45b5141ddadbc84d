//! A program that runs beside the test.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

use crate::wait::{self, Deadline};

/// How long a process may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(60);
/// Lines of a log shown when a test fails.
const TAIL: usize = 60;

/// One running program, ended by its own pid when dropped; what it said is shown when the test is failing.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: NamedTempFile,
}

impl Process {
    /// Starts a program.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(mut command: Command, name: &str) -> Self {
        let log = NamedTempFile::new().expect("a file for its log");
        let open = || Stdio::from(File::options().append(true).open(log.path()).expect("its log again"));
        command.stdin(Stdio::null()).stdout(open()).stderr(open());
        let child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name: name.to_owned(), child, log }
    }

    /// What it has said.
    #[must_use]
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }

    /// Sends it a signal. Whom SIGSTOP was sent to stands still when this returns.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, signal: Signal) {
        send(&self.child, signal).expect("it takes the signal");
        if signal == Signal::STOP {
            wait::eventually("all its threads stand still", || standing(self.child.id()));
        }
    }

    /// Ends it with SIGKILL.
    ///
    /// # Panics
    /// When it cannot be ended.
    pub fn kill(&mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("its end");
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// When its state cannot be read.
    pub fn ended(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_some()
    }

    /// Waits until it ends by itself; its exit code, if it was not a signal.
    ///
    /// # Panics
    /// When it goes on for long.
    pub fn wait_for_end(&mut self) -> Option<i32> {
        wait_for_end(&mut self.child)
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {}\n{}\n---", self.name, tail(&self.said()));
        }
        end(&mut self.child);
    }
}

/// Sends a child a signal.
///
/// # Errors
/// When it has ended.
pub(crate) fn send(child: &Child, signal: Signal) -> rustix::io::Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, signal)
}

/// The last lines of a log.
pub(crate) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

/// Waits until a process ends by itself; its exit code.
pub(crate) fn wait_for_end(child: &mut Child) -> Option<i32> {
    wait::eventually("the process ends", || child.try_wait().expect("its state").ok_or("it runs")).code()
}

/// Ends a process with SIGTERM and waits; its exit code, or `None` when it had to be killed.
pub(crate) fn end(child: &mut Child) -> Option<i32> {
    if let Some(status) = child.try_wait().expect("its state") {
        return status.code();
    }
    // It may have ended just now; the wait that follows tells.
    let _ = send(child, Signal::TERM);
    let deadline = Deadline::after(GRACE);
    while !deadline.passed() {
        if let Some(status) = child.try_wait().expect("its state") {
            return status.code();
        }
        wait::pause();
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("its end");
    None
}

/// Whether every thread of a process is stopped.
fn standing(pid: u32) -> Result<(), String> {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|error| error.to_string())? {
        let path = thread.map_err(|error| error.to_string())?.path().join("stat");
        // A thread may end meanwhile.
        let Ok(stat) = std::fs::read_to_string(&path) else { continue };
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        if !matches!(state, Some('T' | 't')) {
            return Err(format!("{}: {state:?}", path.display()));
        }
    }
    Ok(())
}

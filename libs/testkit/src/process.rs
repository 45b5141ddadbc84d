//! [`Process`]: a program that runs beside the test.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

use crate::wait::{self, Deadline};

/// Time from SIGTERM to SIGKILL.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Lines of a log printed when a test fails.
const LOG_TAIL_LINES: usize = 60;

/// A running program, ended by its pid when dropped; its log is printed when the test is failing.
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
    /// When the program cannot be started.
    #[must_use]
    pub fn start(mut command: Command, name: &str) -> Self {
        let log = NamedTempFile::new().expect("a file for its log");
        let open = || Stdio::from(File::options().append(true).open(log.path()).expect("its log again"));
        command.stdin(Stdio::null()).stdout(open()).stderr(open());
        let child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name: name.to_owned(), child, log }
    }

    /// Returns the program's log.
    #[must_use]
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }

    /// Sends the program a signal. After SIGSTOP, returns when all threads are stopped.
    ///
    /// # Panics
    /// When the program has ended.
    pub fn signal(&self, signal: Signal) {
        send(&self.child, signal).expect("it takes the signal");
        if signal == Signal::STOP {
            wait::eventually("all its threads stand still", || standing(self.child.id()));
        }
    }

    /// Ends the program with SIGKILL.
    ///
    /// # Panics
    /// When the program cannot be ended.
    pub fn kill(&mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("its end");
    }

    /// Whether the program has ended.
    ///
    /// # Panics
    /// When the process's state cannot be read.
    pub fn ended(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_some()
    }

    /// Waits until the program ends by itself; returns the exit code, unless a signal ended the program.
    ///
    /// # Panics
    /// When the program does not end in time.
    pub fn wait_for_end(&mut self) -> Option<i32> {
        wait_for_end(&mut self.child)
    }

    /// Returns the process id.
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

/// Sends a child process a signal.
///
/// # Errors
/// When the process has ended.
pub(crate) fn send(child: &Child, signal: Signal) -> rustix::io::Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, signal)
}

/// Returns the last lines of a log.
pub(crate) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

/// Waits until a process ends by itself; returns the exit code.
pub(crate) fn wait_for_end(child: &mut Child) -> Option<i32> {
    wait::eventually("the process ends", || child.try_wait().expect("its state").ok_or("it runs")).code()
}

/// Ends a process with SIGTERM and waits; returns the exit code, or `None` when the process had to be killed.
pub(crate) fn end(child: &mut Child) -> Option<i32> {
    if let Some(status) = child.try_wait().expect("its state") {
        return status.code();
    }
    // The process may have ended just now; the wait below shows it.
    let _ = send(child, Signal::TERM);
    let deadline = Deadline::after(TERMINATION_TIMEOUT);
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

/// Checks that every thread of a process is stopped.
fn standing(pid: u32) -> Result<(), String> {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|error| error.to_string())? {
        let path = thread.map_err(|error| error.to_string())?.path().join("stat");
        // A thread may end during the check.
        let Ok(stat) = std::fs::read_to_string(&path) else { continue };
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        if !matches!(state, Some('T' | 't')) {
            return Err(format!("{}: {state:?}", path.display()));
        }
    }
    Ok(())
}

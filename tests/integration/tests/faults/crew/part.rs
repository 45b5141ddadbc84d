//! One of Oarlock's parts in a process of its own, which can be ended and started again.

use oarlock_testkit::{Process, Signal};

/// A process, and its command.
pub(super) struct Part {
    name: &'static str,
    words: Vec<String>,
    process: Process,
}

fn start(name: &str, words: &[String]) -> Process {
    let mut command = oarlock_testkit::part(name);
    command.args(words);
    Process::start(command, name)
}

impl Part {
    pub(super) fn start(name: &'static str, words: Vec<String>) -> Self {
        let process = start(name, &words);
        Self { name, words, process }
    }

    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    /// Ends the process in order.
    #[track_caller]
    pub(super) fn end(&mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.process.wait_for_end(), Some(0), "{}", self.said());
    }

    /// Starts the process again after its end.
    pub(super) fn again(&mut self) {
        self.process = start(self.name, &self.words);
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Returns the log since the last start.
    pub(super) fn said(&self) -> String {
        self.process.said()
    }

    /// Returns how often the log since the last start contains this text.
    pub(super) fn told(&self, what: &str) -> u64 {
        self.said().matches(what).count() as u64
    }

    /// Whether the process is this member of its role, by the log, which holds its identity on the bus.
    pub(super) fn is(&self, member: &str) -> bool {
        let said = self.said();
        said.lines().any(|line| line.contains("bus connected") && line.contains(&format!("/{member} ")))
    }
}

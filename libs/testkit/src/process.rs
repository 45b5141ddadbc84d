//! A program that runs beside the test.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

use crate::wait::eventually;

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

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {}\n{}\n---", self.name, self.said());
        }
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return };
        // It may be gone already; the wait that follows tells.
        let _ = kill_process(pid, Signal::TERM);
        eventually(&self.name, || match self.child.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
}

//! Long-running kubectl commands.

use std::process::{Child, Command, Stdio};

use tempfile::NamedTempFile;

use super::Ran;
use crate::wait::eventually;

/// A running kubectl, ended by its pid when dropped. Its output goes to files, so a slow reader never blocks it.
#[derive(Debug)]
pub struct Following {
    line: String,
    child: Child,
    out: NamedTempFile,
    err: NamedTempFile,
}

impl Following {
    pub(super) fn start(mut command: Command, line: &str) -> Self {
        let file = || NamedTempFile::new().expect("a file for its output");
        let (out, err) = (file(), file());
        let open = |file: &NamedTempFile| Stdio::from(file.reopen().expect("its output again"));
        command.stdin(Stdio::null()).stdout(open(&out)).stderr(open(&err));
        eprintln!("$ kubectl {line} &");
        Self { line: line.to_owned(), child: command.spawn().expect("kubectl starts"), out, err }
    }

    /// Waits until the standard output satisfies the condition; returns the output.
    ///
    /// # Panics
    /// When the output does not do so in time; the message names `what`.
    pub fn until(&self, what: &str, right: impl Fn(&str) -> bool) -> String {
        self.look(what, |ran| right(&ran.out)).out
    }

    /// Waits until the standard error satisfies the condition; returns it.
    ///
    /// # Panics
    /// As [`Following::until`].
    pub fn until_error(&self, what: &str, right: impl Fn(&str) -> bool) -> String {
        self.look(what, |ran| right(&ran.err)).err
    }

    /// Whether the command is running.
    ///
    /// # Panics
    /// When the process's state cannot be read.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Waits for the command's end.
    ///
    /// # Panics
    /// When the command does not end in time.
    #[must_use]
    pub fn ends(mut self) -> Ran {
        eventually(&format!("kubectl {} ends", self.line), || {
            if self.runs() { Err(self.said().to_string()) } else { Ok(()) }
        });
        let code = self.child.wait().expect("its end").code();
        let ran = Ran { code: code.unwrap_or(-1), ..self.said() };
        eprintln!("{ran}");
        ran
    }

    fn look(&self, what: &str, right: impl Fn(&Ran) -> bool) -> Ran {
        eventually(what, || {
            let ran = self.said();
            if right(&ran) { Ok(ran) } else { Err(ran) }
        })
    }

    /// Returns the output so far.
    fn said(&self) -> Ran {
        let text = |file: &NamedTempFile| {
            let bytes = std::fs::read(file.path()).expect("its output");
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Ran { line: self.line.clone(), code: 0, out: text(&self.out), err: text(&self.err) }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // `Err` means that the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

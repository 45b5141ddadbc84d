//! Commands that follow what happens.

use std::process::{Child, Command, Stdio};

use tempfile::NamedTempFile;

use super::Ran;
use crate::wait::eventually;

/// A running kubectl, ended by its own pid when dropped. What it says goes to files, so that it is never held up by who reads it.
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

    /// Waits until what it said on its standard output is right, and returns that.
    ///
    /// # Panics
    /// When it is not in time; the text names `what`.
    pub fn until(&self, what: &str, right: impl Fn(&str) -> bool) -> String {
        self.look(what, |ran| right(&ran.out)).out
    }

    /// The same for its standard error.
    ///
    /// # Panics
    /// As [`Following::until`].
    pub fn until_error(&self, what: &str, right: impl Fn(&str) -> bool) -> String {
        self.look(what, |ran| right(&ran.err)).err
    }

    /// Whether it still runs.
    ///
    /// # Panics
    /// When its state cannot be read.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end in time.
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

    /// What it said so far.
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
        // Err: it ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

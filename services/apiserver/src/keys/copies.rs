//! Copies of files, readable only by their owner.

use std::path::PathBuf;

use anyhow::Context;
use oarlock_pki::{AtomicFiles, Visibility};

/// Files to copy from one folder into another.
pub(super) struct Copies {
    from: PathBuf,
    to: PathBuf,
    files: Vec<(PathBuf, PathBuf)>,
}

impl Copies {
    pub(super) fn new(from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Self {
        Self { from: from.into(), to: to.into(), files: Vec::new() }
    }

    pub(super) fn add(&mut self, name: &str) {
        self.add_as(name, name);
    }

    pub(super) fn add_as(&mut self, name: &str, called: &str) {
        self.files.push((self.from.join(name), self.to.join(called)));
    }

    pub(super) fn add_if_there(&mut self, name: &str) {
        if self.from.join(name).exists() {
            self.add(name);
        }
    }

    /// Writes the copies, readable only by their owner.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub(super) fn write(self) -> anyhow::Result<()> {
        let mut files = AtomicFiles::new();
        for (from, to) in self.files {
            let content = std::fs::read(&from).with_context(|| from.display().to_string())?;
            files.add(to, Visibility::Private, content);
        }
        Ok(files.commit()?)
    }
}

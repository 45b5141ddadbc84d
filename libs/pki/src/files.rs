//! Atomic file writes: each file is written under a temporary name, synced, then renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Access mode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// Mode 0600, owner only: keys, and kubeconfigs with keys.
    Private,
    /// Mode 0644, everyone: certificates.
    Public,
}

/// A batch of files that appear in the order of insertion. All are written and synced before the first rename, so a batch costs about one disk flush, and after a crash each
/// file is old, new or absent, never partial.
#[derive(Debug, Default)]
pub struct AtomicFiles {
    files: Vec<(PathBuf, Visibility, Vec<u8>)>,
}

impl AtomicFiles {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    pub fn add(&mut self, path: impl Into<PathBuf>, visibility: Visibility, content: impl Into<Vec<u8>>) -> &mut Self {
        self.files.push((path.into(), visibility, content.into()));
        self
    }

    /// Writes the batch. Missing directories are created with mode 0700.
    ///
    /// # Errors
    /// When a file or its directory cannot be written; files renamed earlier stay.
    pub fn commit(self) -> Result<()> {
        let mut open = Vec::with_capacity(self.files.len());
        for (path, visibility, content) in &self.files {
            let parent = parent(path);
            create_private_dir(parent)?;
            let draft = draft_path(path);
            let file = write_draft(&draft, *visibility, content).map_err(|e| error("write", &draft, e))?;
            open.push((draft, path, file));
        }
        for (draft, _, file) in &open {
            file.sync_all().map_err(|e| error("sync", draft, e))?;
        }
        for (draft, path, _) in &open {
            fs::rename(draft, path).map_err(|e| error("rename", path, e))?;
        }
        let mut parents: Vec<&Path> = self.files.iter().map(|(path, _, _)| parent(path)).collect();
        parents.sort_unstable();
        parents.dedup();
        for directory in parents {
            File::open(directory).and_then(|d| d.sync_all()).map_err(|e| error("sync", directory, e))?;
        }
        Ok(())
    }
}

/// Reads a file.
///
/// # Errors
/// When the file cannot be read.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| error("read", path, e))
}

/// Reads a file; `None` when the file does not exist.
pub(crate) fn read_optional(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(error("read", path, e)),
    }
}

fn create_private_dir(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|e| error("create", path, e))
}

fn write_draft(path: &Path, visibility: Visibility, content: &[u8]) -> std::io::Result<File> {
    // A temporary file left by a crash may have other permissions: create it anew.
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mode = match visibility {
        Visibility::Private => 0o600,
        Visibility::Public => 0o644,
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    Ok(file)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn draft_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

fn error(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::File { action, path: path.to_owned(), source }
}

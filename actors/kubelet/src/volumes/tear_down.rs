//! Removes a pod's directory by what is on the disk, whichever kubelet made it.

use std::io::ErrorKind;
use std::path::Path;

use oarlock_schema::Str;

use super::layout::{self, PodDir};
use super::mounted;
use crate::pod_error::{PodError, because};

/// Unmounts everything at and below a pod's directory, then removes it. Nothing is removed while a mount remains, since the mounted files may belong to another
/// pod or the node.
///
/// # Errors
/// When the operating system refuses; the caller must try again.
pub(super) fn tear_down(dir: &PodDir) -> Result<(), PodError> {
    let path = dir.path();
    // The kernel's list of mounts has resolved paths.
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(because("lstat", path)(error)),
    };
    mounted::unmount_all(&real)?;
    match std::fs::remove_dir_all(&real) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(because("unlinkat", path)(error)),
        _ => Ok(()),
    }
}

/// Returns the uids of the pods with a directory.
///
/// # Errors
/// When the directory cannot be read; the operating system's text.
pub(super) fn pods(root: &Path) -> Result<Vec<Str>, PodError> {
    let dir = layout::pods(root);
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(because("open", &dir)(error)),
    };
    let mut pods = Vec::new();
    for entry in entries {
        let entry = entry.map_err(because("readdir", &dir))?;
        if entry.path().is_dir() {
            pods.extend(entry.file_name().to_str().map(Str::from));
        }
    }
    Ok(pods)
}

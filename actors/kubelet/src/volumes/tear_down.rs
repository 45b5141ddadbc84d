//! Takes a pod's directory down. Only the disk is asked what is in it, so it does not matter which kubelet made it.

use std::io::ErrorKind;
use std::path::Path;

use oarlock_schema::Str;

use super::layout::{self, PodDir};
use super::{because, mounted};

/// Unmounts everything at and below a pod's directory, then removes it. Nothing is removed while anything is mounted: what is mounted may
/// be somebody else's.
///
/// # Errors
/// The system's text; to be tried again.
pub(super) fn tear_down(dir: &PodDir) -> Result<(), String> {
    let path = dir.path();
    // The kernel's list has real paths.
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

/// The pods that have a directory.
///
/// # Errors
/// The system's text.
pub(super) fn pods(root: &Path) -> Result<Vec<Str>, String> {
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

//! Folders and files for objects (among them Secrets) that only the user of this process may read.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use oarlock_seeded_bug::seeded_bug;

/// Mode of folders: access for the owner only.
const FOLDER_MODE: u32 = 0o700;
/// Mode of files: access for the owner only.
const FILE_MODE: u32 = 0o600;

/// Creates a folder and its parents with access for the owner only. An existing folder gets the same mode.
///
/// # Errors
/// The folder cannot be created.
pub fn folder(path: &Path) -> io::Result<()> {
    if seeded_bug!("store_open_to_all") {
        return std::fs::create_dir_all(path);
    }
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
    close(path, FOLDER_MODE)
}

/// Returns options that create a file which only its owner can open. An existing file keeps its mode; [`file()`] changes it.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    if !seeded_bug!("store_open_to_all") {
        options.mode(FILE_MODE);
    }
    options
}

/// Removes access to a file for everyone but its owner.
///
/// # Errors
/// The file cannot be inspected.
pub fn file(path: &Path) -> io::Result<()> {
    if seeded_bug!("store_open_to_all") {
        return Ok(());
    }
    close(path, FILE_MODE)
}

/// Removes access to all files of a folder for everyone but their owner. Other programs create files there with the process's default mode.
///
/// # Errors
/// The folder cannot be read.
pub fn files_in(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            file(&entry.path())?;
        }
    }
    Ok(())
}

fn close(path: &Path, mode: u32) -> io::Result<()> {
    if std::fs::metadata(path)?.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    match std::fs::set_permissions(path, Permissions::from_mode(mode)) {
        // The folder may be a mount of another user; then that user decides about its mode.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_holds_objects_is_for_its_owner_alone_also_where_it_was_open_before() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("a/b");
        folder(&made).unwrap();
        assert_eq!(mode(&made), 0o700);
        let path = made.join("file");
        options().write(true).create(true).truncate(false).open(&path).unwrap();
        assert_eq!(mode(&path), 0o600);

        std::fs::set_permissions(&made, Permissions::from_mode(0o755)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        folder(&made).unwrap();
        files_in(&made).unwrap();
        assert_eq!((mode(&made), mode(&path)), (0o700, 0o600));
    }
}

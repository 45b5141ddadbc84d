//! Folders and files that hold objects, Secrets among them: only the user who runs the process may read them.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use oarlock_seeded_bug::seeded_bug;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

/// Makes a folder, with its parents, that only its owner can open. An existing folder is closed to everybody else.
///
/// # Errors
/// The folder cannot be made.
pub fn folder(path: &Path) -> io::Result<()> {
    if seeded_bug!("store_open_to_all") {
        return std::fs::create_dir_all(path);
    }
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)?;
    close(path, FOLDER)
}

/// Options to create a file that only its owner can open. An existing file keeps its mode; [`file()`] changes that.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    if !seeded_bug!("store_open_to_all") {
        options.mode(FILE);
    }
    options
}

/// Closes a file to everybody but its owner.
///
/// # Errors
/// The file cannot be looked at.
pub fn file(path: &Path) -> io::Result<()> {
    if seeded_bug!("store_open_to_all") {
        return Ok(());
    }
    close(path, FILE)
}

/// Closes all files of a folder to everybody but their owner: other programs make them with the process's default mode.
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
        // The folder may be a mount that belongs to another user, who decides about its mode.
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

//! Checks or creates paths of the node according to their type (`pkg/volume/hostpath`); never removes one.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use crate::pod_error::{PodError, because};

/// Checks a path, or creates it where its type says so.
///
/// # Errors
/// When the path is not of its type; upstream's text.
pub(super) fn check(path: &Path, kind: &str) -> Result<(), PodError> {
    let found = std::fs::metadata(path).ok();
    let kind_of = |test: fn(&std::fs::FileType) -> bool| found.as_ref().is_some_and(|found| test(&found.file_type()));
    let (holds, what) = match kind {
        "" => return Ok(()),
        "DirectoryOrCreate" if found.is_none() => return make_directory(path),
        "FileOrCreate" if found.is_none() => return make_file(path),
        "DirectoryOrCreate" | "Directory" => (kind_of(std::fs::FileType::is_dir), "a directory"),
        "FileOrCreate" | "File" => (kind_of(std::fs::FileType::is_file), "a file"),
        "Socket" => (kind_of(FileTypeExt::is_socket), "a socket file"),
        "CharDevice" => (kind_of(FileTypeExt::is_char_device), "a character device"),
        "BlockDevice" => (kind_of(FileTypeExt::is_block_device), "a block device"),
        _ => return Err(PodError::Invalid(format!("{kind} is an invalid volume type"))),
    };
    if holds {
        Ok(())
    } else {
        Err(PodError::NotReady(format!("hostPath type check failed: {} is not {what}", path.display())))
    }
}

fn make_directory(path: &Path) -> Result<(), PodError> {
    std::fs::create_dir_all(path).map_err(because("mkdir", path))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).map_err(because("chmod", path))
}

fn make_file(path: &Path) -> Result<(), PodError> {
    let opened = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
    opened.map(|_| ()).map_err(because("open", path))
}

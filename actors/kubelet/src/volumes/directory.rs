//! Directories of volumes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::pod_error::{PodError, because};

/// Makes a directory and sets its permissions, independently of the umask.
pub(super) fn directory(path: &Path, mode: u32) -> Result<(), PodError> {
    std::fs::create_dir_all(path).map_err(because("mkdir", path))?;
    let found = std::fs::symlink_metadata(path).map_err(because("lstat", path))?;
    if found.permissions().mode() & 0o777 != mode {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, permissions).map_err(because("chmod", path))?;
    }
    Ok(())
}

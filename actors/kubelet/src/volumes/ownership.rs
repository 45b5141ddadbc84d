//! Applies `fsGroup`: gives a volume to a group (`pkg/volume/volume_linux.go`).

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Gid, chownat};

use crate::pod_error::{PodError, because};

/// Group of a volume, and its permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ownership {
    pub(super) group: u32,
    pub(super) read_only: bool,
}

const SET_GROUP: u32 = 0o2000;

impl Ownership {
    /// Returns the permission bits of the group.
    const fn bits(self, directory: bool) -> u32 {
        let mask = if self.read_only { 0o440 } else { 0o660 };
        if directory { mask | SET_GROUP | 0o110 } else { mask }
    }

    /// Whether the root of a volume belongs to the group already (`OnRootMismatch`).
    pub(super) fn holds(self, root: &Path) -> bool {
        let bits = self.bits(true);
        fs::metadata(root).is_ok_and(|found| found.is_dir() && found.gid() == self.group && found.mode() & bits == bits)
    }

    /// Gives one file to the group. Failures are only logged, as upstream does, since some file systems have no owners.
    fn give(self, path: &Path, found: &Metadata) {
        if let Err(error) = self.try_give(path, found) {
            tracing::warn!(%error, "volume not given to its group");
        }
    }

    fn try_give(self, path: &Path, found: &Metadata) -> Result<(), PodError> {
        let group = Some(Gid::from_raw(self.group));
        let given = chownat(CWD, path, None, group, AtFlags::SYMLINK_NOFOLLOW);
        given.map_err(|error| because("lchown", path)(error.into()))?;
        if found.file_type().is_symlink() {
            // A symlink's own permissions mean nothing, and chmod would change its target.
            return Ok(());
        }
        let mode = (found.mode() & 0o7777) | self.bits(found.is_dir());
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(because("chmod", path))
    }
}

/// Gives everything at and below `root` to a group; a directory comes after its content, the root last.
///
/// # Errors
/// When the operating system refuses; its text.
pub(super) fn own(root: &Path, ownership: Ownership) -> Result<(), PodError> {
    let look = |path: &Path| fs::symlink_metadata(path).map_err(because("lstat", path));
    let mut dirs = vec![(root.to_owned(), look(root)?)];
    let mut at = 0;
    while let Some((dir, found)) = dirs.get(at).cloned() {
        at += 1;
        if !found.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&dir).map_err(because("open", &dir))? {
            let path = entry.map_err(because("readdir", &dir))?.path();
            let found = look(&path)?;
            if found.is_dir() {
                dirs.push((path, found));
            } else {
                ownership.give(&path, &found);
            }
        }
    }
    dirs.iter().rev().for_each(|(path, found)| ownership.give(path, found));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;
    use crate::volumes::tests::privileged;

    fn mode(path: &Path) -> (u32, u32) {
        let found = fs::metadata(path).unwrap();
        (found.gid(), found.mode() & 0o7777)
    }

    #[test]
    fn the_group_may_read_and_write_and_owns_what_comes() {
        if !privileged("the_group_may_read_and_write_and_owns_what_comes") {
            return;
        }
        let dir = TempDir::new().unwrap();
        let (sub, file, outside) = (dir.path().join("sub"), dir.path().join("sub/file"), TempDir::new().unwrap());
        fs::create_dir(&sub).unwrap();
        fs::write(&file, b"x").unwrap();
        symlink(outside.path(), dir.path().join("link")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&sub, fs::Permissions::from_mode(0o700)).unwrap();
        let before = mode(outside.path());
        own(dir.path(), Ownership { group: 4321, read_only: false }).unwrap();
        assert_eq!((mode(&file), mode(&sub)), ((4321, 0o660), (4321, 0o2770)));
        assert_eq!(mode(outside.path()), before, "links are not followed");
        assert!(Ownership { group: 4321, read_only: false }.holds(dir.path()));
        assert!(!Ownership { group: 4322, read_only: false }.holds(dir.path()));
    }

    #[test]
    fn of_what_is_read_only_the_group_may_only_read() {
        if !privileged("of_what_is_read_only_the_group_may_only_read") {
            return;
        }
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"x").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        own(dir.path(), Ownership { group: 4321, read_only: true }).unwrap();
        assert_eq!(mode(&file), (4321, 0o640));
    }
}

//! Opens parts of volumes so that no symlink leads out of the volume, and binds them to separate paths, so that a container cannot exchange them later
//! (`pkg/volume/util/subpath`).
//!
//! Upstream resolves a path and then opens it step by step. Here the kernel does both at once (`openat2` with `RESOLVE_BENEATH`), and the opened directory
//! itself is mounted (`open_tree`, `move_mount`), so no name is resolved twice.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use oarlock_seeded_bug::seeded_bug;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, fchmod, fstat, mkdirat, openat2, statat};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};

use super::mounted;
use crate::pod_error::{PodError, because};

/// Largest size in bytes of a file of variables.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Makes the missing directories of `subpath`, with the permissions of the volume itself.
///
/// # Errors
/// When a directory cannot be made; for the log only, since the text names files of the node.
pub(super) fn make(volume: &Path, subpath: &Path) -> Result<(), PodError> {
    let failed = |error: Errno| because("mkdir", &volume.join(subpath))(error.into());
    let root = open_root(volume)?;
    let mode = Mode::from_raw_mode(fstat(&root).map_err(failed)?.st_mode & 0o7777);
    let mut path = PathBuf::new();
    let mut parent = open_beneath(&root, Path::new(".")).map_err(failed)?;
    for part in subpath.components() {
        let Component::Normal(name) = part else { continue };
        path.push(name);
        parent = match open_beneath(&root, &path) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                mkdirat(&parent, name, mode).map_err(failed)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let made = openat2(&parent, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(failed)?;
                // Independent of the umask.
                fchmod(&made, mode).map_err(failed)?;
                made
            }
            Err(error) => return Err(failed(error)),
        };
    }
    Ok(())
}

/// Binds a part of a volume to `target`, unless that part is bound there already.
///
/// # Errors
/// When the part cannot be bound; for the log only, since the text names files of the node.
pub(super) fn bind(volume: &Path, subpath: &Path, target: &Path) -> Result<(), PodError> {
    let opened = open_beneath(&open_root(volume)?, subpath);
    let opened = opened.map_err(|error| because("open", &volume.join(subpath))(error.into()))?;
    let failed = |error: Errno| because("mount", target)(error.into());
    let found = fstat(&opened).map_err(failed)?;
    if mounted::is_mount_point(target)? {
        if statat(CWD, target, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|bound| same(&bound, &found)) {
            return Ok(());
        }
        unmount(target, UnmountFlags::NOFOLLOW).map_err(failed)?;
    }
    prepare(target, found.st_mode & 0o170_000 == 0o040_000)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&opened, c"", flags).map_err(failed)?;
    move_mount(&tree, c"", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(failed)
}

/// Returns the text of a file in a volume. Symlinks cannot leave the volume; absolute ones start at its root.
///
/// # Errors
/// When the file cannot be read; for the log only, since the text names files of the node.
pub(super) fn read(volume: &Path, file: &Path) -> Result<String, PodError> {
    let path = volume.join(file);
    let failed = |error: Errno| because("open", &path)(error.into());
    // Opening a named pipe that a container made would block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let opened = openat2(open_root(volume)?, file, flags, Mode::empty(), within).map_err(failed)?;
    if fstat(&opened).map_err(failed)?.st_mode & 0o170_000 != 0o100_000 {
        return Err(PodError::NotReady(format!("open {}: not a regular file", path.display())));
    }
    let mut text = Vec::new();
    let mut limited = std::fs::File::from(opened).take(MAX_FILE_BYTES + 1);
    limited.read_to_end(&mut text).map_err(because("read", &path))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(PodError::NotReady(format!("read {}: longer than {MAX_FILE_BYTES} bytes", path.display())));
    }
    String::from_utf8(text).map_err(|_| PodError::NotReady(format!("read {}: not UTF-8", path.display())))
}

/// Makes a file or directory to mount on.
fn prepare(target: &Path, directory: bool) -> Result<(), PodError> {
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent).map_err(because("mkdir", parent))?;
    }
    match std::fs::symlink_metadata(target) {
        Ok(found) if found.is_dir() == directory => return Ok(()),
        // A leftover of an earlier attempt, when the part was of the other kind.
        Ok(found) if found.is_dir() => std::fs::remove_dir(target).map_err(because("remove", target))?,
        Ok(_) => std::fs::remove_file(target).map_err(because("remove", target))?,
        Err(_) => {}
    }
    if directory {
        std::fs::create_dir(target).map_err(because("mkdir", target))
    } else {
        std::fs::write(target, b"").map_err(because("open", target))
    }
}

/// Opens the volume's root, whose own path may contain symlinks of the node.
fn open_root(volume: &Path) -> Result<OwnedFd, PodError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::open(volume, flags, Mode::empty()).map_err(|error| because("open", volume)(error.into()))
}

fn open_beneath(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let beneath = if seeded_bug!("subpath_follows_links") { ResolveFlags::empty() } else { ResolveFlags::BENEATH };
    let within = beneath | ResolveFlags::NO_MAGICLINKS;
    // The kernel returns EAGAIN when a concurrent rename interferes.
    for _ in 0..16 {
        match openat2(root, path, flags, Mode::empty(), within) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

fn same(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn directories_are_made_inside_the_volume_and_nowhere_else() {
        let (volume, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        fs::set_permissions(volume.path(), fs::Permissions::from_mode(0o2775)).unwrap();
        make(volume.path(), Path::new("a/b")).unwrap();
        for made in ["a", "a/b"] {
            assert_eq!(fs::metadata(volume.path().join(made)).unwrap().mode() & 0o7777, 0o2775, "as the volume");
        }
        symlink("a", volume.path().join("in")).unwrap();
        make(volume.path(), Path::new("in/c")).unwrap();
        assert!(volume.path().join("a/c").is_dir());
        symlink(outside.path(), volume.path().join("out")).unwrap();
        symlink("..", volume.path().join("up")).unwrap();
        for refused in ["out/new", "up/new-of-a-test", "out"] {
            assert!(make(volume.path(), Path::new(refused)).is_err(), "{refused}");
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}

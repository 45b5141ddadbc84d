//! Reads the kernel's list of mounts, and unmounts.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::mount::{UnmountFlags, unmount};

use crate::pod_error::{PodError, because};

/// Whether `path` is a mount point; false for a missing path.
///
/// # Errors
/// When the list cannot be read; the operating system's text.
pub(super) fn is_mount_point(path: &Path) -> Result<bool, PodError> {
    match statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, StatxFlags::empty()) {
        Ok(stat) => Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(false),
        Err(error) => Err(because("statx", path)(error.into())),
    }
}

/// Unmounts all mounts at and below `path`.
///
/// # Errors
/// When a mount cannot be removed; the operating system's text.
pub(super) fn unmount_all(path: &Path) -> Result<(), PodError> {
    // The list is in the order of mounting, and the newest mount must be removed first.
    for mount in below(path)?.iter().rev() {
        match unmount(mount, UnmountFlags::NOFOLLOW) {
            // Another unmount has removed this mount too.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(because("unmount", mount)(error.into())),
        }
    }
    match below(path)?.first() {
        None => Ok(()),
        Some(left) => Err(PodError::NotReady(format!("unmount {}: still mounted", left.display()))),
    }
}

/// Returns the mount points at and below `path`, in the order of mounting.
fn below(path: &Path) -> Result<Vec<PathBuf>, PodError> {
    let file = Path::new("/proc/self/mountinfo");
    let text = std::fs::read(file).map_err(because("open", file))?;
    let points = text.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    Ok(points.map(unescape).filter(|point| point.starts_with(path)).collect())
}

/// Decodes a path of the list, in which spaces, tabs, line ends and backslashes are octal.
fn unescape(text: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_read_as_they_are() {
        assert_eq!(unescape(br"/a\040b\134c\011"), Path::new("/a b\\c\t"));
        assert_eq!(unescape(br"/plain\0"), Path::new("/plain\\0"));
    }

    #[test]
    fn damaged_names_are_read_as_something() {
        for text in oarlock_testkit::damaged_text(5, r"/a\040b\134c\011/d\0", 2000) {
            let _ = unescape(text.as_bytes());
        }
    }

    #[test]
    fn the_root_is_a_mount_point_and_a_file_of_it_is_none() {
        assert_eq!(is_mount_point(Path::new("/proc")), Ok(true));
        assert_eq!(is_mount_point(Path::new("/proc/self/status")), Ok(false));
        assert_eq!(is_mount_point(Path::new("/no/such/path")), Ok(false));
        assert!(below(Path::new("/proc")).unwrap().contains(&PathBuf::from("/proc")));
    }
}

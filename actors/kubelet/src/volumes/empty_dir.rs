//! Makes and removes a pod's own directories, on disk or in memory (`pkg/volume/emptydir`); other plugins keep their files in one.

use std::ffi::CString;
use std::path::Path;

use rustix::mount::{MountFlags, mount};

use super::directory::directory;
use super::mounted;
use super::ownership::{Ownership, own};
use super::plan::Medium;
use crate::pod_error::{PodError, because};

/// Makes the directory, unless it exists. `ready` is the directory of the marker file for a complete setup.
pub(super) fn set_up(path: &Path, ready: &Path, medium: &Medium, group: Option<u32>) -> Result<(), PodError> {
    let there = if medium.is_mounted() { mounted::is_mount_point(path)? } else { path.is_dir() };
    if ready.join("ready").is_file() && there {
        return Ok(());
    }
    directory(path, 0o777)?;
    if medium.is_mounted() && !mounted::is_mount_point(path)? {
        mount_medium(path, medium)?;
    }
    if let Some(group) = group {
        own(path, Ownership { group, read_only: false })?;
    }
    std::fs::create_dir_all(ready).map_err(because("mkdir", ready))?;
    let mark = ready.join("ready");
    std::fs::write(&mark, b"").map_err(because("open", &mark))
}

/// Unmounts and removes the directory. Idempotent.
pub(super) fn tear_down(path: &Path, ready: &Path) -> Result<(), PodError> {
    remove(ready)?;
    mounted::unmount_all(path)?;
    remove(path)
}

fn remove(path: &Path) -> Result<(), PodError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(because("unlinkat", path)(error)),
        _ => Ok(()),
    }
}

fn mount_medium(path: &Path, medium: &Medium) -> Result<(), PodError> {
    let failed = |error: rustix::io::Errno| because("mount", path)(error.into());
    let options = |text: String| CString::new(text).map_err(|error| PodError::Invalid(error.to_string()));
    match medium {
        Medium::Disk => Ok(()),
        Medium::Memory(bytes) => {
            // Secrets stay out of swap where the kernel supports `noswap` (6.4).
            let size = if *bytes > 0 { format!("size={bytes},") } else { String::new() };
            let tmpfs = |data: &CString| mount("tmpfs", path, "tmpfs", MountFlags::empty(), data.as_c_str());
            match tmpfs(&options(format!("{size}noswap"))?) {
                Err(rustix::io::Errno::INVAL) => tmpfs(&options(size)?).map_err(failed),
                other => other.map_err(failed),
            }
        }
        Medium::HugePages(bytes) => {
            let data = options(format!("pagesize={bytes}"))?;
            mount("nodev", path, "hugetlbfs", MountFlags::empty(), data.as_c_str()).map_err(failed)
        }
    }
}

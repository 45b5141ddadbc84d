//! Updates a directory's files all at once (`pkg/volume/util/atomic_writer.go`).
//!
//! The data are in a directory `..<time>.<random>`; `..data` is a symlink to that directory, and the names that users see are symlinks into `..data`. Renaming
//! a new symlink over `..data` replaces all files in one step.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

use oarlock_runtime::{clock, rng};

use super::payload::{File, Payload};
use crate::pod_error::{PodError, because};

/// Failure of a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The volume had no files before.
    First(PodError),
    /// The previous files are still in place.
    Update(PodError),
}

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";
/// Largest length of a file name, and of a path.
const MAX_NAME: usize = 255;
const MAX_PATH: usize = 4096;

/// Replaces the files of `target` by `payload`. `give` sets owners and permissions of everything in a directory before users see it.
pub(super) fn write(
    target: &Path,
    payload: &Payload,
    give: impl Fn(&Path) -> Result<(), PodError>,
) -> Result<(), Failure> {
    let data = target.join(DATA);
    let before = match fs::read_link(&data) {
        Ok(name) => Some(target.join(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::Update(because("readlink", &data)(error))),
    };
    let first = before.is_none();
    replace(target, payload, before, give).map_err(|why| if first { Failure::First(why) } else { Failure::Update(why) })
}

/// Whether `target` contains files of an earlier write.
pub(super) fn holds_files(target: &Path) -> bool {
    fs::symlink_metadata(target.join(DATA)).is_ok()
}

fn replace(
    target: &Path,
    payload: &Payload,
    before: Option<PathBuf>,
    give: impl Fn(&Path) -> Result<(), PodError>,
) -> Result<(), PodError> {
    payload.keys().try_for_each(|path| check(path))?;
    let obsolete = before.as_deref().map_or(Ok(BTreeSet::new()), |old| obsolete(old, payload))?;
    let current = before.as_deref().is_some_and(|old| obsolete.is_empty() && is_current(old, payload));
    if !current {
        make(target, payload, give)?;
    }
    for name in payload.keys().filter_map(|path| top(path)).collect::<BTreeSet<_>>() {
        let link = target.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(DATA).join(name), &link).map_err(because("symlink", &link))?;
        }
    }
    for name in obsolete.iter().filter(|path| path.components().count() == 1) {
        let link = target.join(name);
        fs::remove_file(&link).map_err(because("remove", &link))?;
    }
    match before.filter(|_| !current) {
        Some(old) => fs::remove_dir_all(&old).map_err(because("remove", &old)),
        None => Ok(()),
    }
}

/// Writes a new directory and points `..data` to it; after a failure the new directory is removed.
fn make(target: &Path, payload: &Payload, give: impl Fn(&Path) -> Result<(), PodError>) -> Result<(), PodError> {
    let name = format!("..{}.{:010}", clock::wall().strftime("%Y_%m_%d_%H_%M_%S"), rng::below(10_000_000_000));
    let dir = target.join(&name);
    let fill = || {
        fs::create_dir(&dir).map_err(because("mkdir", &dir))?;
        mode(&dir, 0o755)?;
        payload.iter().try_for_each(|(path, file)| write_file(&dir, path, file))?;
        give(target)?;
        let link = target.join(NEW_DATA);
        // A leftover of a kubelet that ended during a write.
        let _ = fs::remove_file(&link);
        symlink(&name, &link).map_err(because("symlink", &link))?;
        fs::rename(&link, target.join(DATA)).map_err(because("rename", &link))
    };
    fill().inspect_err(|_| {
        let _ = fs::remove_file(target.join(NEW_DATA));
        let _ = fs::remove_dir_all(&dir);
    })
}

fn write_file(dir: &Path, path: &Path, file: &File) -> Result<(), PodError> {
    let full = dir.join(path);
    if let Some(parent) = full.parent() {
        fs::create_dir_all(parent).map_err(because("mkdir", parent))?;
    }
    fs::write(&full, &file.data).map_err(because("open", &full))?;
    mode(&full, file.mode)?;
    file.owner.map_or(Ok(()), |owner| chown(&full, Some(owner), None).map_err(because("chown", &full)))
}

fn mode(path: &Path, mode: u32) -> Result<(), PodError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(because("chmod", path))
}

/// Returns everything below `old` that the payload no longer contains, as relative paths.
fn obsolete(old: &Path, payload: &Payload) -> Result<BTreeSet<PathBuf>, PodError> {
    let mut wanted = BTreeSet::new();
    for path in payload.keys() {
        wanted.extend(path.ancestors().filter(|part| !part.as_os_str().is_empty()).map(Path::to_owned));
    }
    let mut found = BTreeSet::new();
    let mut dirs = vec![old.to_owned()];
    while let Some(dir) = dirs.pop() {
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(because("open", &dir)(error)),
        };
        for entry in entries {
            let path = entry.map_err(because("readdir", &dir))?.path();
            if path.is_dir() {
                dirs.push(path.clone());
            }
            found.extend(path.strip_prefix(old).map(Path::to_owned));
        }
    }
    Ok(found.difference(&wanted).cloned().collect())
}

fn is_current(old: &Path, payload: &Payload) -> bool {
    payload.iter().all(|(path, file)| fs::read(old.join(path)).is_ok_and(|data| data == file.data))
}

/// Returns the entry of the volume's own directory through which users reach a path.
fn top(path: &Path) -> Option<&Path> {
    path.components().next().map(|part| Path::new(part.as_os_str()))
}

/// Validates a path (upstream's `validatePath`).
fn check(path: &Path) -> Result<(), PodError> {
    let shown = path.display();
    if path.as_os_str().is_empty() {
        return Err(PodError::Invalid("invalid path: must not be empty: \"\"".to_owned()));
    }
    if path.is_absolute() {
        return Err(PodError::Invalid(format!("invalid path: must be relative path: {shown}")));
    }
    if path.as_os_str().len() > MAX_PATH {
        return Err(PodError::Invalid(format!("invalid path: must be less than or equal to {MAX_PATH} characters")));
    }
    for part in path.components() {
        if part == Component::ParentDir {
            return Err(PodError::Invalid(format!("invalid path: must not contain '..': {shown}")));
        }
        if part.as_os_str().len() > MAX_NAME {
            return Err(PodError::Invalid(format!(
                "invalid path: filenames must be less than or equal to {MAX_NAME} characters"
            )));
        }
    }
    // Names with this prefix are reserved for the writer's own files.
    if top(path).is_some_and(|top| top.to_string_lossy().starts_with("..")) {
        return Err(PodError::Invalid(format!("invalid path: must not start with '..': {shown}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

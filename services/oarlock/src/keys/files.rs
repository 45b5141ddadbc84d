//! Files of a folder and of its subfolders, in memory.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use oarlock_pki::{AtomicFiles, Visibility};

/// Contents by path below the folder, with `/` between names.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// Reads every file of a folder.
///
/// # Errors
/// When a file cannot be read, or its name is not UTF-8.
pub(super) fn read(folder: &Path) -> anyhow::Result<Files> {
    let mut found = Files::new();
    read_below(folder, "", &mut found)?;
    Ok(found)
}

fn read_below(folder: &Path, before: &str, found: &mut Files) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{}: the name is not UTF-8", path.display()))?;
        let name = format!("{before}{name}");
        if path.is_dir() {
            read_below(&path, &format!("{name}/"), found)?;
        } else {
            found.insert(name, std::fs::read(&path).with_context(|| path.display().to_string())?);
        }
    }
    Ok(())
}

/// Writes files that only their owner may read.
///
/// # Errors
/// When a path leads out of the folder, or a file cannot be written.
pub(super) fn write(folder: &Path, files: &Files) -> anyhow::Result<()> {
    let mut batch = AtomicFiles::new();
    for (path, content) in files {
        let inside = path.split('/').all(|name| !name.is_empty() && name != "." && name != "..");
        ensure!(inside, "{path:?} is no path of a file in a folder");
        batch.add(folder.join(path), Visibility::Private, content.clone());
    }
    Ok(batch.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_is_written_outside() {
        let folder = tempfile::tempdir().unwrap();
        let files: Files = [("a".to_owned(), vec![0, 255]), ("b/c/d.e".to_owned(), Vec::new())].into();
        write(folder.path(), &files).unwrap();
        assert_eq!(read(folder.path()).unwrap(), files);
        for bad in ["../a", "/a", "b//a", "b/../../a", "", "."] {
            assert!(write(folder.path(), &[(bad.to_owned(), Vec::new())].into()).is_err(), "{bad:?}");
        }
        assert!(read(&folder.path().join("none")).is_err());
    }
}

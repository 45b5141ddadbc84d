//! Checks whether a pod's volumes exceed their limits (`localStorageEviction` of `pkg/kubelet/eviction`).
//!
//! The kernel enforces the size of volumes in memory; volumes on disk must be measured.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use oarlock_meta::Quantity;
use oarlock_meta::quote::quote;
use oarlock_schema::views::core_v1::Pod;

use super::Mounted;

/// Returns names and limits, as written, of a pod's emptyDir volumes.
pub(super) fn limits(pod: Pod<'_>) -> Vec<(String, String)> {
    let limit = |volume: oarlock_schema::views::core_v1::Volume<'_>| {
        let limit = volume.empty_dir()?.size_limit()?;
        let bytes = Quantity::parse(limit).ok()?.value();
        (bytes > 0).then(|| (volume.name().to_owned(), limit.to_owned()))
    };
    pod.spec().volumes().iter().filter_map(limit).collect()
}

/// Returns the message of the pod's eviction (reason `Evicted`), if a volume exceeds its limit.
pub(super) fn eviction_message(limits: &[(String, String)], mounted: &Mounted) -> Option<String> {
    limits.iter().find_map(|(name, limit)| {
        let bytes = u64::try_from(Quantity::parse(limit).ok()?.value()).ok()?;
        let used = used(&mounted.get(name.as_str())?.path);
        (used > bytes).then(|| format!("Usage of EmptyDir volume {} exceeds the limit {}. ", quote(name), quote(limit)))
    })
}

/// Returns the bytes on disk at and below `root`, within its file system; a file with several links counts once. Files that disappear during the walk do not
/// count.
fn used(root: &Path) -> u64 {
    let Ok(top) = std::fs::symlink_metadata(root) else { return 0 };
    let mut counted = BTreeSet::new();
    let mut total = top.blocks() * 512;
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            if found.dev() != top.dev() || (found.nlink() > 1 && !found.is_dir() && !counted.insert(found.ino())) {
                continue;
            }
            total += found.blocks() * 512;
            if found.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::volumes::Volume;

    #[test]
    fn what_a_volume_holds_is_measured_once_for_each_file() {
        let dir = TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/file"), vec![1; 300 << 10]).unwrap();
        std::fs::hard_link(dir.path().join("sub/file"), dir.path().join("other")).unwrap();
        let volume = Volume { path: dir.path().to_owned(), read_only: false, stale: None, inner_name: "data".into() };
        let mounted: Mounted = [("data".into(), volume)].into_iter().collect();
        let limit = |text: &str| vec![("data".to_owned(), text.to_owned())];
        assert_eq!(eviction_message(&limit("400Ki"), &mounted), None);
        let why = "Usage of EmptyDir volume \"data\" exceeds the limit \"200Ki\". ";
        assert_eq!(eviction_message(&limit("200Ki"), &mounted).as_deref(), Some(why));
        assert_eq!(eviction_message(&[("none".to_owned(), "1".to_owned())], &mounted), None);
    }
}

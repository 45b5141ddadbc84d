//! Makes mount points inside volumes, which must exist before containers mount other volumes there (`pkg/volume/util/nested_volumes.go`).

use std::path::{Component, Path, PathBuf};

use oarlock_schema::views::core_v1::{Container, Pod};

use crate::pod_error::{PodError, because};

/// Makes the directories in a volume on which containers mount other volumes.
pub(super) fn make(pod: Pod<'_>, volume: &str, path: &Path) -> Result<(), PodError> {
    let spec = pod.spec();
    for container in spec.init_containers().iter().chain(spec.containers().iter()) {
        for point in points(container, volume)? {
            let dir = path.join(point);
            let failed = |why: &PodError| format!("unable to create nested volume mountpoints: {why}");
            std::fs::create_dir_all(&dir).map_err(|error| because("mkdir", &dir)(error).within(failed))?;
        }
    }
    Ok(())
}

/// Returns the outermost paths in a volume at which a container mounts other volumes.
fn points(container: Container<'_>, volume: &str) -> Result<Vec<PathBuf>, PodError> {
    let mounts = || container.volume_mounts().iter();
    let mut all: Vec<PathBuf> = mounts().map(|mount| clean(mount.mount_path())).collect();
    all.sort();
    let mut points: Vec<PathBuf> = Vec::new();
    for own in mounts().filter(|mount| mount.name() == volume).map(|mount| clean(mount.mount_path())) {
        if own.starts_with("..") {
            return Err(PodError::Invalid(format!("invalid container mount point {}", own.display())));
        }
        let mut here: Vec<PathBuf> = Vec::new();
        for nested in all.iter().filter_map(|path| path.strip_prefix(&own).ok()) {
            if !nested.as_os_str().is_empty() && !here.iter().any(|known| nested.starts_with(known)) {
                here.push(nested.to_owned());
            }
        }
        points.extend(here);
    }
    Ok(points)
}

/// Cleans a path like Go's `filepath.Clean`.
fn clean(path: &str) -> PathBuf {
    let mut out = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir
                if out.components().next_back().is_some_and(|last| matches!(last, Component::Normal(_))) =>
            {
                out.pop();
            }
            Component::ParentDir if out.is_absolute() => {}
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use oarlock_client::decode;
    use oarlock_schema::type_of_kind;
    use serde_json::json;

    use super::*;
    use crate::downward;

    #[test]
    fn only_the_outermost_nested_mounts_are_made() {
        let mounts = [
            ("own", "/dir"),
            ("a", "/dir/nested"),
            ("b", "/dir/nested/other"),
            ("c", "/dir/nested-vol"),
            ("d", "/directory"),
            ("e", "/x/../dir/deep/er"),
        ];
        let mounts: Vec<_> = mounts.iter().map(|(name, path)| json!({"name": name, "mountPath": path})).collect();
        let pod = json!({"spec": {"containers": [{"name": "main", "volumeMounts": mounts}]}});
        let pod = decode(type_of_kind("", "v1", "Pod").unwrap(), pod.to_string().as_bytes()).unwrap();
        let container = downward::pod(&pod).spec().containers().get(0).unwrap();
        let found = points(container, "own").unwrap();
        let mut found: Vec<&str> = found.iter().map(|path| path.to_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, ["deep/er", "nested", "nested-vol"]);
        assert_eq!(points(container, "none").unwrap(), Vec::<PathBuf>::new());
    }
}

//! Executes the plan of a volume. Every function is idempotent.

use std::path::Path;

use oarlock_runtime::clock;
use oarlock_schema::views::core_v1::Pod;
use rustix::mount::{MountFlags, mount_bind, mount_remount};

use super::atomic::{Failure, holds_files, write};
use super::layout::{Plugin, PodDir};
use super::ownership::{Ownership, own};
use super::plan::Plan;
use super::{Volume, empty_dir, host_path, mounted, nested};
use crate::machine_metrics;
use crate::pod_error::{PodError, because};

/// Makes one volume, and records how long that took.
///
/// # Errors
/// When the volume cannot be made; upstream's text.
pub(super) fn set_up(pod: Pod<'_>, dir: &PodDir, plan: Plan) -> Result<Volume, PodError> {
    let (plugin, began) = (plan.plugin_name(), clock::now());
    let made = make(pod, dir, plan);
    let succeeded = made.as_ref().is_ok_and(|volume| volume.stale.is_none());
    machine_metrics::mounted(plugin, succeeded, began.elapsed());
    made
}

fn make(pod: Pod<'_>, dir: &PodDir, plan: Plan) -> Result<Volume, PodError> {
    let context = pod.spec().security_context();
    let group = context.and_then(|context| context.fs_group()).and_then(|group| u32::try_from(group).ok());
    match plan {
        Plan::EmptyDir { name, medium } => {
            let path = dir.volume(Plugin::EmptyDir, &name);
            empty_dir::set_up(&path, &dir.ready(Plugin::EmptyDir, &name), &medium, group)?;
            Ok(Volume { path, read_only: false, stale: None, inner_name: name })
        }
        Plan::Files { name, plugin, files, medium } => {
            let path = dir.volume(plugin, &name);
            let ready = dir.ready(plugin, &name);
            empty_dir::set_up(&path, &ready, &medium, group)?;
            nested::make(pod, &name, &path)?;
            let give = |root: &Path| group.map_or(Ok(()), |group| own(root, Ownership { group, read_only: true }));
            match write(&path, &files, give) {
                Ok(()) => Ok(Volume { path, read_only: true, stale: None, inner_name: name }),
                Err(Failure::First(why)) => {
                    // The volume was never complete, so no container uses it: a later attempt starts anew.
                    if let Err(also) = empty_dir::tear_down(&path, &ready) {
                        tracing::warn!(path = %path.display(), error = %also, "volume that failed not removed");
                    }
                    Err(why)
                }
                Err(Failure::Update(why)) => {
                    Ok(Volume { path, read_only: true, stale: Some(why.to_string()), inner_name: name })
                }
            }
        }
        Plan::Stale { name, plugin, why } => {
            let path = dir.volume(plugin, &name);
            if !holds_files(&path) {
                return Err(why);
            }
            Ok(Volume { path, read_only: true, stale: Some(why.to_string()), inner_name: name })
        }
        Plan::HostPath { name, path, kind } => {
            host_path::check(&path, &kind)?;
            Ok(Volume { path, read_only: false, stale: None, inner_name: name })
        }
        Plan::Local { name, path: source, read_only } => {
            let path = dir.volume(Plugin::Local, &name);
            if !mounted::is_mount_point(&path)? {
                local(&source, &path, read_only)?;
                if let Some(group) = group.filter(|_| !read_only) {
                    let policy = context.and_then(|context| context.fs_group_change_policy());
                    let ownership = Ownership { group, read_only: false };
                    if policy != Some("OnRootMismatch") || !ownership.holds(&path) {
                        own(&path, ownership)?;
                    }
                }
            }
            Ok(Volume { path, read_only, stale: None, inner_name: name })
        }
    }
}

fn local(source: &Path, path: &Path, read_only: bool) -> Result<(), PodError> {
    std::fs::create_dir_all(path).map_err(because("mkdir", path))?;
    let failed = |error: rustix::io::Errno| {
        // An empty directory without its mount would look like a complete volume.
        let _ = std::fs::remove_dir(path);
        because("mount", source)(error.into())
    };
    mount_bind(source, path).map_err(failed)?;
    if read_only {
        // The kernel needs two calls: one for the bind mount, one to make it read-only.
        mount_remount(path, MountFlags::BIND | MountFlags::RDONLY, c"").map_err(failed)?;
    }
    Ok(())
}

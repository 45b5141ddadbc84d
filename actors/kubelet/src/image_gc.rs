//! Removes unused images when the disk is full, the least recently used first (`pkg/kubelet/images/image_gc_manager.go`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oarlock_runtime::clock;

use crate::cri::{self, Image, Runtime};

/// Use of the file system, in per cent, from which images are removed (`--image-gc-high-threshold`).
pub(crate) const HIGH_THRESHOLD: u64 = 85;
/// Use of the file system, in per cent, down to which images are removed (`--image-gc-low-threshold`).
pub(crate) const LOW_THRESHOLD: u64 = 80;
/// Age in seconds below which images are kept (`--minimum-image-ttl-duration`).
pub(crate) const MIN_AGE_SECONDS: i64 = 120;

/// Size and use of a file system in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    capacity: u64,
    available: u64,
}

/// Why images were not removed, or not enough of them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageGcError {
    /// The runtime refused a call.
    #[error(transparent)]
    Runtime(#[from] cri::Error),
    /// The use of the images' file system is unknown.
    #[error("{}: {source}", .path.display())]
    FileSystem {
        /// Folder of the images.
        path: PathBuf,
        /// The refusal of the operating system.
        source: rustix::io::Errno,
    },
    /// All unused images are removed, and the file system is still too full.
    #[error("disk is full, and {missing} bytes more than all unused images should come free")]
    StillFull {
        /// Bytes to free in addition.
        missing: u64,
    },
}

/// Times of first sight and last use of each image, in Unix seconds.
#[derive(Debug, Default)]
pub(crate) struct ImageGc {
    known: BTreeMap<Arc<str>, (i64, i64)>,
}

impl ImageGc {
    /// Records which images exist and are used at `now`.
    fn note(&mut self, images: &[Image], used: &BTreeSet<String>, now: i64) {
        self.known.retain(|id, _| images.iter().any(|image| image.own == *id));
        for image in images {
            let (_, last) = self.known.entry(image.own.clone()).or_insert((now, 0));
            if used.contains(&*image.own) || image.pinned {
                *last = now;
            }
        }
    }

    /// Returns the images to remove, and the bytes that should be freed and cannot be.
    fn plan(&self, images: &[Image], space: Space, now: i64) -> (Vec<Arc<str>>, u64) {
        let used = space.capacity.saturating_sub(space.available);
        if space.capacity == 0 || used.saturating_mul(100) / space.capacity < HIGH_THRESHOLD {
            return (Vec::new(), 0);
        }
        let mut missing = (space.capacity / 100 * (100 - LOW_THRESHOLD)).saturating_sub(space.available);
        let mut candidates: Vec<(i64, i64, &Image)> = images
            .iter()
            .filter_map(|image| self.known.get(&image.own).map(|(first, last)| (*last, *first, image)))
            .filter(|(last, first, _)| *last < now && now - first >= MIN_AGE_SECONDS)
            .collect();
        candidates.sort_by_key(|(last, first, _)| (*last, *first));
        let mut chosen = Vec::new();
        for (_, _, image) in candidates {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(image.size);
            chosen.push(image.own.clone());
        }
        (chosen, missing)
    }

    /// Checks the use of the disk, and removes images if necessary.
    ///
    /// # Errors
    /// When the use is unknown, an image cannot be removed, or too few images are unused.
    pub(crate) async fn run(&mut self, runtime: &dyn Runtime) -> Result<(), ImageGcError> {
        let images = runtime.list_images().await?;
        let used = runtime.images_in_use().await?;
        let now = clock::wall().as_second();
        self.note(&images, &used, now);
        let space = space(&runtime.image_fs().await?)?;
        let (chosen, missing) = self.plan(&images, space, now);
        for image in &chosen {
            runtime.remove_image(image).await?;
            tracing::info!(image = &**image, "unused image removed: the disk is full");
        }
        match missing {
            0 => Ok(()),
            missing => Err(ImageGcError::StillFull { missing }),
        }
    }
}

fn space(path: &Path) -> Result<Space, ImageGcError> {
    let unknown = |source| ImageGcError::FileSystem { path: path.to_owned(), source };
    let facts = rustix::fs::statvfs(path).map_err(unknown)?;
    Ok(Space {
        capacity: facts.f_blocks.saturating_mul(facts.f_frsize),
        available: facts.f_bavail.saturating_mul(facts.f_frsize),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, size: u64, pinned: bool) -> Image {
        let own: Arc<str> = name.into();
        Image { id: own.clone(), own, names: Vec::new(), size, user: None, username: "".into(), pinned }
    }

    #[test]
    fn the_longest_unused_go_first_and_no_more_than_needed() {
        let images =
            [image("used", 5, false), image("pinned", 5, true), image("old", 3, false), image("older", 4, false)];
        let mut gc = ImageGc::default();
        let used = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        gc.note(&images, &used(&["used", "older"]), 1000);
        gc.note(&images, &used(&["used", "old"]), 1100);
        gc.note(&images, &used(&["used"]), 1200);
        let of = |available| gc.plan(&images, Space { capacity: 100, available }, 1200);
        assert_eq!(of(20).0.len(), 0, "80 % are used");
        assert_eq!(of(15), (vec!["older".into(), "old".into()], 0), "5 have to come free");
        assert_eq!(of(1), (vec!["older".into(), "old".into()], 12));
        let young = gc.plan(&images, Space { capacity: 100, available: 1 }, 1100);
        assert!(young.0.is_empty(), "none has been there for two minutes");
    }
}

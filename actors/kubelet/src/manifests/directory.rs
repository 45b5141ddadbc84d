//! A directory of manifests on disk: what lies in it now, and when that may have changed.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use oarlock_runtime::clock;
use rustix::fs::inotify::WatchFlags;
use tokio::io::AsyncReadExt;

use super::{LOOK, RETRY, hidden};
use crate::watch::Watch;

/// No manifest is larger (upstream `maxConfigLength`), in bytes.
const LONGEST: u64 = 10 << 20;

/// Tells one state of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    /// When contents and inode changed last, in nanoseconds.
    changed: [i128; 2],
}

impl Stamp {
    fn of(file: &std::fs::Metadata) -> Self {
        let nanos = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        let changed = [nanos(file.mtime(), file.mtime_nsec()), nanos(file.ctime(), file.ctime_nsec())];
        Self { device: file.dev(), inode: file.ino(), length: file.len(), changed }
    }
}

/// See the module text.
pub(super) struct Directory {
    path: PathBuf,
    /// Device and inode of what is watched: another may have taken its name.
    watch: Option<((u64, u64), Watch)>,
    known: BTreeMap<PathBuf, (Stamp, Bytes)>,
    /// What was complained of already.
    complaints: BTreeMap<PathBuf, String>,
}

impl Directory {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, watch: None, known: BTreeMap::new(), complaints: BTreeMap::new() }
    }

    /// What lies in it; `None` when that cannot be told now.
    pub(super) async fn look(&mut self) -> Option<BTreeMap<PathBuf, Bytes>> {
        // Watched first: what changes while it is read is noticed.
        self.rewatch().await;
        let paths = match self.paths().await {
            Ok(paths) => paths,
            Err(error) => {
                self.complain(&self.path.clone(), &error);
                return (error.kind() == ErrorKind::NotFound).then(BTreeMap::new);
            }
        };
        self.complaints.retain(|path, _| paths.contains(path));
        let mut known = std::mem::take(&mut self.known);
        for path in paths {
            match read(&path, known.remove(&path)).await {
                Ok(file) => {
                    self.complaints.remove(&path);
                    self.known.insert(path, file);
                }
                // It went while it was looked at.
                Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => {}
                Err(error) => self.complain(&path, &error),
            }
        }
        Some(self.known.iter().map(|(path, (_, bytes))| (path.clone(), bytes.clone())).collect())
    }

    async fn paths(&self) -> std::io::Result<Vec<PathBuf>> {
        if !tokio::fs::metadata(&self.path).await?.is_dir() {
            return Ok(vec![self.path.clone()]);
        }
        let mut entries = tokio::fs::read_dir(&self.path).await?;
        let mut paths = Vec::new();
        while let Some(entry) = entries.next_entry().await? {
            paths.push(entry.path());
        }
        paths.retain(|path| !hidden(path));
        paths.sort();
        Ok(paths)
    }

    /// Waits until something may have changed. Cancel safe.
    pub(super) async fn changed(&mut self) {
        let Some((_, watch)) = &mut self.watch else { return clock::sleep(RETRY).await };
        if let Ok(Err(error)) = clock::timeout(LOOK, watch.changed()).await {
            tracing::warn!(path = %self.path.display(), %error, "manifests not watched");
            self.watch = None;
        }
    }

    /// Sees to it that the directory of this name is watched; of a single file the one that holds it.
    async fn rewatch(&mut self) {
        let Ok(own) = tokio::fs::metadata(&self.path).await else {
            self.watch = None;
            return;
        };
        let holder = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = if own.is_dir() { self.path.as_path() } else { holder };
        let Ok(found) = tokio::fs::metadata(dir).await else { return };
        let which = (found.dev(), found.ino());
        if self.watch.as_ref().is_some_and(|(watched, _)| *watched == which) {
            return;
        }
        let what = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVE_SELF
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF;
        self.watch = Watch::new(dir, what)
            .inspect_err(|error| {
                // Looked at all the same, only less often.
                tracing::warn!(path = %dir.display(), %error, "manifests not watched");
            })
            .ok()
            .map(|watch| (which, watch));
    }

    /// Says so, once.
    fn complain(&mut self, path: &Path, error: &Error) {
        let why = error.to_string();
        if self.complaints.get(path) != Some(&why) {
            tracing::error!(path = %path.display(), why, "could not process manifest file");
            self.complaints.insert(path.to_owned(), why);
        }
    }
}

/// What a file holds, unless that is known.
async fn read(path: &Path, known: Option<(Stamp, Bytes)>) -> std::io::Result<(Stamp, Bytes)> {
    let found = tokio::fs::metadata(path).await?;
    if !found.is_file() {
        // Opening a pipe would wait for its writer.
        return Err(Error::other("not a regular file"));
    }
    let stamp = Stamp::of(&found);
    if let Some(known) = known.filter(|(before, _)| *before == stamp) {
        return Ok(known);
    }
    let mut bytes = Vec::new();
    tokio::fs::File::open(path).await?.take(LONGEST + 1).read_to_end(&mut bytes).await?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > LONGEST) {
        return Err(Error::other(format!("larger than {LONGEST} bytes")));
    }
    Ok((stamp, bytes.into()))
}

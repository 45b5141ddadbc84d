//! Reads a directory of manifests, and waits for changes in it.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use oarlock_runtime::clock;
use rustix::fs::inotify::WatchFlags;
use tokio::io::AsyncReadExt;

use super::{DIRECTORY_RETRY_PERIOD, FILE_CHECK_PERIOD, hidden};
use crate::watch::Watch;

/// Largest size of a manifest in bytes (upstream `maxConfigLength`).
const MAX_MANIFEST_BYTES: u64 = 10 << 20;

/// Identifies one version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    /// Times of the last change of content and of inode, in nanoseconds.
    changed: [i128; 2],
}

impl Stamp {
    fn of(file: &std::fs::Metadata) -> Self {
        let nanos = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        let changed = [nanos(file.mtime(), file.mtime_nsec()), nanos(file.ctime(), file.ctime_nsec())];
        Self { device: file.dev(), inode: file.ino(), length: file.len(), changed }
    }
}

/// A directory of manifests, with the files last read and a watch for changes.
pub(super) struct Directory {
    path: PathBuf,
    /// Device and inode of the watched directory, since another may have taken its name.
    watch: Option<((u64, u64), Watch)>,
    known: BTreeMap<PathBuf, (Stamp, Bytes)>,
    /// Errors already logged, by path.
    logged: BTreeMap<PathBuf, String>,
}

impl Directory {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, watch: None, known: BTreeMap::new(), logged: BTreeMap::new() }
    }

    /// Returns the files in the directory; `None` when it cannot be read now.
    pub(super) async fn look(&mut self) -> Option<BTreeMap<PathBuf, Bytes>> {
        // The watch starts before reading, so that changes during the reading are noticed.
        self.rewatch().await;
        let paths = match self.paths().await {
            Ok(paths) => paths,
            Err(error) => {
                self.log_once(&self.path.clone(), &error);
                return (error.kind() == ErrorKind::NotFound).then(BTreeMap::new);
            }
        };
        self.logged.retain(|path, _| paths.contains(path));
        let mut known = std::mem::take(&mut self.known);
        for path in paths {
            match read(&path, known.remove(&path)).await {
                Ok(file) => {
                    self.logged.remove(&path);
                    self.known.insert(path, file);
                }
                // The file was removed during the reading.
                Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => {}
                Err(error) => self.log_once(&path, &error),
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

    /// Waits until files may have changed. Cancel safe.
    pub(super) async fn changed(&mut self) {
        let Some((_, watch)) = &mut self.watch else { return clock::sleep(DIRECTORY_RETRY_PERIOD).await };
        if let Ok(Err(error)) = clock::timeout(FILE_CHECK_PERIOD, watch.changed()).await {
            tracing::warn!(path = %self.path.display(), %error, "manifests not watched");
            self.watch = None;
        }
    }

    /// Watches the directory that has the path now; for a single file, the directory that contains the file.
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
                // Files are still read, only periodically.
                tracing::warn!(path = %dir.display(), %error, "manifests not watched");
            })
            .ok()
            .map(|watch| (which, watch));
    }

    /// Logs an error once.
    fn log_once(&mut self, path: &Path, error: &Error) {
        let why = error.to_string();
        if self.logged.get(path) != Some(&why) {
            tracing::error!(path = %path.display(), why, "could not process manifest file");
            self.logged.insert(path.to_owned(), why);
        }
    }
}

/// Returns a file's content, from `known` if the file has not changed.
async fn read(path: &Path, known: Option<(Stamp, Bytes)>) -> std::io::Result<(Stamp, Bytes)> {
    let found = tokio::fs::metadata(path).await?;
    if !found.is_file() {
        // Opening a named pipe would block until it has a writer.
        return Err(Error::other("not a regular file"));
    }
    let stamp = Stamp::of(&found);
    if let Some(known) = known.filter(|(before, _)| *before == stamp) {
        return Ok(known);
    }
    let mut bytes = Vec::new();
    tokio::fs::File::open(path).await?.take(MAX_MANIFEST_BYTES + 1).read_to_end(&mut bytes).await?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_MANIFEST_BYTES) {
        return Err(Error::other(format!("larger than {MAX_MANIFEST_BYTES} bytes")));
    }
    Ok((stamp, bytes.into()))
}

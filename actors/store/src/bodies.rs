//! Cold bodies of objects: a body outside every watch window moves from the View to a bounded cache, and is read again from the cache or the log.
//!
//! The cache may evict anything at any time; the log has every body that the View lacks. A body is requested by key and write revision, so a read
//! returns exactly that version or nothing. Evictions cost time but never change an answer.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use foyer::{BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, RecoverMode};
use futures::{StreamExt, TryStreamExt, stream};
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::{Error, Key, Log};

use crate::entry::{Body, Entry, Indexer};
use crate::offload::offload;

/// How many bodies are requested from a log at a time.
const CONCURRENT_READS: usize = 64;

/// The configuration of cold bodies.
#[derive(Clone, Debug)]
pub struct ColdOptions {
    /// How many bytes of cold bodies stay in memory (`--cache-memory`).
    pub memory_bytes: usize,
    /// A folder for the bodies beyond the memory bound, and its bound in bytes (`--cache-disk`). Earlier contents of the folder are not used.
    pub disk: Option<(PathBuf, usize)>,
    /// Key prefixes of the resources whose bodies may be cold.
    pub prefixes: Vec<String>,
    /// For tests: bodies become cold as soon as they are written, and the cache loses every other one.
    pub forgetful: bool,
}

/// The cache of cold bodies, which reads missing bodies from the log.
pub(crate) struct Bodies {
    log: Arc<dyn Log>,
    indexer: Arc<dyn Indexer>,
    cache: HybridCache<String, Bytes>,
    options: ColdOptions,
}

impl std::fmt::Debug for Bodies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bodies").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Bodies {
    /// Opens an empty cache.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the cache's folder cannot be used.
    pub(crate) async fn open(
        log: Arc<dyn Log>,
        indexer: Arc<dyn Indexer>,
        options: ColdOptions,
    ) -> Result<Self, Error> {
        Ok(Self { log, indexer, cache: cache(&options).await?, options })
    }

    /// Whether bodies of this resource may be cold.
    pub(crate) fn may_be_cold(&self, prefix: &str) -> bool {
        self.options.prefixes.iter().any(|known| known == prefix)
    }

    /// Whether bodies become cold at once, instead of when they leave the watch window.
    pub(crate) fn cold_at_once(&self) -> bool {
        self.options.forgetful
    }

    /// Stores a body that leaves the View.
    pub(crate) fn keep(&self, key: &Key, at: Revision, value: Bytes) {
        if !self.options.forgetful || at.get().is_multiple_of(2) {
            self.cache.insert(name(key, at), value);
        }
    }

    /// Loads the bodies of entries, in order; `None` for an entry whose version neither the cache nor the log has any more.
    ///
    /// # Errors
    /// Errors of the log.
    pub(crate) async fn ready(&self, mut entries: Vec<Arc<Entry>>) -> Result<Vec<Option<Arc<Entry>>>, Error> {
        let mut missing = Vec::new();
        for (place, entry) in entries.iter_mut().enumerate() {
            let Body::Cold { at, .. } = entry.body else { continue };
            match self.cached(&entry.key, at).await {
                Some(value) => *entry = Arc::new(entry.thawed(&value)),
                None => missing.push((place, entry.key.clone(), at)),
            }
        }
        let mut ready: Vec<_> = entries.into_iter().map(Some).collect();
        if missing.is_empty() {
            return Ok(ready);
        }
        let read = offload(&self.log, move |log| async move {
            let read = |(place, key, at): (usize, Key, Revision)| {
                let log = Arc::clone(&log);
                async move { log.body(&key, at).await.map(|value| (place, key, at, value)) }
            };
            stream::iter(missing).map(read).buffered(CONCURRENT_READS).try_collect::<Vec<_>>().await
        });
        for (place, key, at, value) in read.await?? {
            let Some(slot) = ready.get_mut(place) else { continue };
            // A value that upstream wrote differs from the evicted body; the indexer converts it again.
            let value = value.and_then(|value| self.indexer.entry(&key, &value, at).value());
            *slot = match (slot.take(), value) {
                (Some(entry), Some(value)) => {
                    let thawed = Arc::new(entry.thawed(&value));
                    self.keep(&key, at, value);
                    Some(thawed)
                }
                _ => None,
            };
        }
        Ok(ready)
    }

    async fn cached(&self, key: &Key, at: Revision) -> Option<Bytes> {
        match self.cache.get(&name(key, at)).await {
            Ok(found) => found.map(|found| found.value().clone()),
            Err(error) => {
                tracing::debug!(%error, %key, "the cache cannot be read; the log has it");
                None
            }
        }
    }
}

/// Returns the cache key of a version.
fn name(key: &Key, at: Revision) -> String {
    let at = if seeded_bug!("cold_body_ages") { Revision::ZERO } else { at };
    format!("{key}@{at}")
}

async fn cache(options: &ColdOptions) -> Result<HybridCache<String, Bytes>, Error> {
    let weight = |name: &String, value: &Bytes| name.len() + value.len();
    let builder = HybridCacheBuilder::new().with_name("bodies").with_flush_on_close(false);
    let builder = builder.memory(options.memory_bytes).with_shards(4).with_weighter(weight).storage();
    let failed = |error: foyer::Error| Error::Unavailable(format!("the cache of bodies: {error}"));
    let builder = match &options.disk {
        None => builder,
        Some((folder, bytes)) => {
            let unusable = |error: std::io::Error| Error::Unavailable(format!("the cache of bodies: {error}"));
            oarlock_storage::private::folder(folder).map_err(unusable)?;
            let device = FsDeviceBuilder::new(folder).with_capacity(*bytes).build().map_err(failed)?;
            builder.with_engine_config(BlockEngineConfig::new(device)).with_recover_mode(RecoverMode::None)
        }
    };
    let cache = builder.build().await.map_err(failed)?;
    if let Some((folder, _)) = &options.disk {
        // The cache creates its files with the process's umask, which may let other users read them.
        oarlock_storage::private::files_in(folder)
            .map_err(|error| Error::Unavailable(format!("the cache of bodies: {error}")))?;
    }
    Ok(cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_on_disk_are_for_the_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("bodies");
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        let disk = Some((folder.clone(), 16 << 20));
        let options = ColdOptions { memory_bytes: 1 << 20, disk, prefixes: Vec::new(), forgetful: false };
        let _cache = cache(&options).await.unwrap();
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!files.is_empty());
        assert!(files.iter().all(|path| mode(path) == 0o600), "{files:?}");
    }
}

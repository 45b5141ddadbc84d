//! The configuration of a store.

use std::time::Duration;

use crate::bodies::ColdOptions;
use crate::view::DEFAULT_WINDOW_BYTES;

/// The configuration of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bound of all watch windows together, in bytes (`--watch-window-bytes`).
    pub window_bytes: usize,
    /// How long history is kept, for watches and exact reads (`--etcd-compaction-interval`). With 0 nothing is trimmed for its age, and a shared log is left
    /// to other processes.
    pub window: Duration,
    /// How many bytes of superseded versions the log may keep, whatever their age.
    pub history_bytes: u64,
    /// The period of the compactor.
    pub compact_every: Duration,
    /// The cache for cold bodies; `None` keeps all bodies in memory.
    pub cold: Option<ColdOptions>,
    /// Part of the actors' names, unique in the process.
    pub name: String,
}

impl Default for Options {
    /// 64 MiB and 5 minutes of windows, 256 MiB of history, a compaction every 5 s.
    fn default() -> Self {
        Self {
            window_bytes: DEFAULT_WINDOW_BYTES,
            window: Duration::from_secs(300),
            history_bytes: 256 << 20,
            compact_every: Duration::from_secs(5),
            cold: None,
            name: "main".to_owned(),
        }
    }
}

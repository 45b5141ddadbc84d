//! The store's actors: committer, [`View`] and its watchers, compactor, expirer.
//!
//! A write goes through the committer into the log (`oarlock-storage`) and from there into the View; the View answers all reads. No reader sees a
//! revision that is not durable.

mod barrier;
mod batch;
mod bodies;
mod committer;
mod compactor;
pub mod entry;
pub mod error;
pub mod event;
pub mod expirer;
pub mod export;
mod feeder;
mod offload;
pub mod options;
mod resolve;
pub mod store;
pub mod view;

use oarlock_runtime::ActorKind;

pub use batch::Write;
pub use bodies::ColdOptions;
pub use entry::{Body, Entry, EntryParts, Fields, Indexer};
pub use error::{Gone, MissingChange, ReadError, WriteError};
pub use event::{Event, EventKind};
pub use export::Export;
pub use options::Options;
pub use store::{StartError, Store};
pub use view::{Batch, Change, DEFAULT_WINDOW_BYTES, Filter, Interest, Snapshot, View, WatchCursor};

/// The kinds of this crate's actors.
pub static KINDS: &[&ActorKind] = &[&committer::COMMITTER, &compactor::COMPACTOR, &expirer::EXPIRER, &feeder::FEEDER];

#[cfg(test)]
mod tests {
    #[test]
    fn rows_keep_the_rules_of_the_runtime() {
        assert_eq!(oarlock_runtime::kind::check(super::KINDS.iter().copied()), Ok(()));
    }
}

//! The [`Log`] trait, its backends, and the contract suite that every backend passes.
//!
//! A log is one total order of compare-and-swap writes. The View of `oarlock-store` answers reads from memory. A log stores keys, revisions and opaque values and knows
//! nothing of Kubernetes.
//!
//! | backend | durable | for |
//! |---|---|---|
//! | [`EmbeddedLog`] | after one fdatasync per commit | one process; the default |
//! | [`EtcdLog`] | in a quorum | many processes over one state |
//! | [`MemoryLog`] | never | `--ephemeral`, tests |

pub mod disk;
pub mod embedded;
pub mod error;
pub mod etcd;
mod follow;
mod heads;
pub mod key;
pub mod log;
mod memory;
pub mod private;
pub mod snapshot;
#[cfg(feature = "testing")]
pub mod testing;

pub use embedded::EmbeddedLog;
pub use error::{Error, Fatal, FatalHook};
pub use etcd::EtcdLog;
pub use heads::MAX_VALUE_BYTES;
pub use key::Key;
pub use log::{
    Append, Cause, Expect, Fence, GroupOutcome, Health, LoadPart, Loaded, Log, Outcome, Record, Sharing, Tail,
    TailBatch, Value,
};
pub use memory::MemoryLog;
pub use oarlock_meta::Revision;

//! Snapshots: all objects at one revision in one file, in a format independent of the backend. `docs/operations/snapshots.md` describes the format.
//!
//! [`Encoder`] and [`Reader`] do not open files themselves; [`restore()`] fills any [`Log`](crate::Log). The [`Digest`] covers keys and values, so equal states have equal
//! digests on every backend.

mod digest;
mod read;
mod restore;
mod write;

use oarlock_meta::Revision;

pub use digest::{Digest, OutOfOrder, Summary};
pub use read::{ReadError, Reader};
pub use restore::{RestoreError, restore};
pub use write::Encoder;

use crate::{Key, Value};

/// Default gap between a snapshot's revision and the first revision after its restore: the original server may have handed out more revisions since.
pub const RESTORE_REVISION_GAP: u64 = 1_000_000_000;

/// The first bytes of every snapshot.
const MAGIC: &[u8; 8] = b"oarlsnap";
/// Version of the format, stored after the magic bytes.
const FORMAT: u32 = 1;
/// Length of a frame's head. A frame is: kind (1), length of its body (4, little endian), the body, CRC-32 of all of these (4).
const FRAME_HEAD: usize = 5;
const HEADER: u8 = b'H';
const OBJECT: u8 = b'O';
const END: u8 = b'E';
/// The longest body of a frame, in bytes: a value, its key, and a few fixed fields.
const MAX_BODY: usize = crate::MAX_VALUE_BYTES + (128 << 10);

/// Header of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Uid of the cluster's namespace `kube-system`; empty when that namespace does not exist.
    pub cluster: String,
    /// Revision of the snapshot's state.
    pub revision: Revision,
    /// Number of objects in the snapshot.
    pub count: u64,
}

/// One object of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The object's store key.
    pub key: Key,
    /// Revision of the object's last write, where known.
    pub revision: Option<Revision>,
    /// The object's stored value: canonical JSON without `resourceVersion`.
    pub value: Value,
}

#[cfg(test)]
mod tests;

//! Snapshots: all objects at one revision in one file, in a form that no backend owns. `docs/operations/snapshots.md` has the format.
//!
//! Writing ([`Encoder`]) and reading ([`Reader`]) know nothing of files; [`restore()`] fills any [`Log`](crate::Log). The [`Digest`] is over what is
//! kept, and the same for the same state wherever it is.

mod digest;
mod read;
mod restore;
mod write;

use oarlock_meta::Revision;

pub use digest::{Digest, Disorder, Summary};
pub use read::{ReadError, Reader};
pub use restore::{RestoreError, restore};
pub use write::Encoder;

use crate::{Key, Value};

/// How far above a snapshot revisions go on unless told otherwise: the server that was snapshotted may have handed out more since.
pub const BUMP: u64 = 1_000_000_000;

/// The first bytes of every snapshot.
const MAGIC: &[u8; 8] = b"oarlsnap";
/// The version of the format, which follows them.
const FORMAT: u32 = 1;
/// A frame: kind (1), length of its body (4, little endian), the body, CRC-32 of all that (4).
const FRAME_HEAD: usize = 5;
const HEADER: u8 = b'H';
const OBJECT: u8 = b'O';
const END: u8 = b'E';
/// The longest body of a frame, in bytes: a value, its key, and the little else.
const MAX_BODY: usize = crate::MAX_VALUE_BYTES + (128 << 10);

/// What a snapshot says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which cluster it is of: the uid of its namespace `kube-system`, empty when there is none.
    pub cluster: String,
    /// The revision whose state it is.
    pub revision: Revision,
    /// How many objects it holds.
    pub count: u64,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Where it is kept.
    pub key: Key,
    /// When it was last written, where that is known.
    pub revision: Option<Revision>,
    /// What is kept: canonical JSON without `resourceVersion`.
    pub value: Value,
}

#[cfg(test)]
mod tests;

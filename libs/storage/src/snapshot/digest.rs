//! The digest of a state: a hash over keys and values in key order.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::Key;

/// An object whose key does not follow the previous key.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{key} does not follow {last}: keys must rise")]
pub struct OutOfOrder {
    key: Key,
    last: Key,
}

/// An unfinished digest: SHA-256 over each object's key and value, each preceded by its length (4 bytes, little endian).
#[derive(Clone, Debug, Default)]
pub struct Digest {
    hash: Sha256,
    count: u64,
    last: Option<Key>,
}

impl Digest {
    /// Adds the next object.
    ///
    /// # Errors
    /// [`OutOfOrder`] when the key is not greater than the one before.
    pub fn add(&mut self, key: &Key, value: &[u8]) -> Result<(), OutOfOrder> {
        if let Some(last) = self.last.replace(key.clone()).filter(|last| last >= key) {
            return Err(OutOfOrder { key: key.clone(), last });
        }
        for part in [key.as_str().as_bytes(), value] {
            self.hash.update(u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            self.hash.update(part);
        }
        self.count += 1;
        Ok(())
    }

    /// Returns the summary of the objects added so far.
    #[must_use]
    pub fn finish(self) -> Summary {
        Summary { count: self.count, hash: self.hash.finalize().into() }
    }
}

/// Object count and hash of a state: states with equal summaries hold the same objects, byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of objects.
    pub count: u64,
    /// SHA-256 over all objects.
    pub hash: [u8; 32],
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

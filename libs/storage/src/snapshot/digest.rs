//! What tells two states apart: a hash over keys and values in the order of the keys.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::Key;

/// The key that does not follow the one before it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{key} does not follow {last}: keys must rise")]
pub struct Disorder {
    key: Key,
    last: Key,
}

/// A digest in the making: SHA-256 over each object's key and value, each behind its length (4 bytes, little endian).
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
    /// When its key does not rise.
    pub fn add(&mut self, key: &Key, value: &[u8]) -> Result<(), Disorder> {
        if let Some(last) = self.last.replace(key.clone()).filter(|last| last >= key) {
            return Err(Disorder { key: key.clone(), last });
        }
        for part in [key.as_str().as_bytes(), value] {
            self.hash.update(u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            self.hash.update(part);
        }
        self.count += 1;
        Ok(())
    }

    /// What has been added.
    #[must_use]
    pub fn finish(self) -> Summary {
        Summary { count: self.count, hash: self.hash.finalize().into() }
    }
}

/// Which state: two with the same summary hold the same objects, byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many objects.
    pub count: u64,
    /// SHA-256 over them.
    pub hash: [u8; 32],
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

//! Tokens whose signature was verified, by their SHA-256. What is remembered never becomes wrong (the same bytes, the same keys), so
//! there is no expiry but that of the claims; memory is bounded by two generations.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use ring::digest;

use super::verify::Remembered;

/// Entries per generation: two of these, about 1 KiB each with their claims.
const GENERATION: usize = 8192;

pub(super) type Hash = [u8; 32];

pub(super) fn hash(token: &str) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    hash
}

#[derive(Default)]
struct Generations {
    young: HashMap<Hash, Arc<Remembered>>,
    old: HashMap<Hash, Arc<Remembered>>,
}

#[derive(Default)]
pub(super) struct Cache {
    generations: RwLock<Generations>,
}

impl Cache {
    pub(super) fn get(&self, hash: &Hash) -> Option<Arc<Remembered>> {
        {
            let generations = self.generations.read();
            if let Some(found) = generations.young.get(hash) {
                return Some(Arc::clone(found));
            }
            if generations.old.is_empty() {
                return None;
            }
        }
        // Used again: it moves to the young, and so survives the next change of generations.
        let found = self.generations.write().old.remove(hash)?;
        self.insert(*hash, Arc::clone(&found));
        Some(found)
    }

    pub(super) fn insert(&self, hash: Hash, entry: Arc<Remembered>) {
        let mut generations = self.generations.write();
        if generations.young.len() >= GENERATION {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(hash, entry);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let generations = self.generations.read();
        generations.young.len() + generations.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Claims;

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let cache = Cache::default();
        let entry = Arc::new(Remembered::new(Claims::default()));
        let used = hash("used");
        cache.insert(used, Arc::clone(&entry));
        for i in 0..5 * GENERATION {
            cache.insert(hash(&i.to_string()), Arc::clone(&entry));
            assert!(cache.len() <= 2 * GENERATION);
            assert!(cache.get(&used).is_some());
        }
    }
}

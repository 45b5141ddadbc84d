//! A cache of verified signatures, by the SHA-256 of the token. An entry never becomes wrong (same bytes, same keys), so entries do not expire;
//! memory is bounded by two generations.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use ring::digest;

/// The most entries of one of the two generations; an entry takes about 1 KiB with its claims.
const GENERATION_CAPACITY: usize = 8192;

pub(super) type Hash = [u8; 32];

pub(super) fn hash(token: &str) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    hash
}

struct Generations<T> {
    young: HashMap<Hash, Arc<T>>,
    old: HashMap<Hash, Arc<T>>,
}

/// A cache with two generations: when the young one is full, it becomes the old one, and the old one is dropped.
pub(super) struct Cache<T> {
    generations: RwLock<Generations<T>>,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self { generations: RwLock::new(Generations { young: HashMap::new(), old: HashMap::new() }) }
    }
}

impl<T> Cache<T> {
    pub(super) fn get(&self, hash: &Hash) -> Option<Arc<T>> {
        {
            let generations = self.generations.read();
            if let Some(found) = generations.young.get(hash) {
                return Some(Arc::clone(found));
            }
            if generations.old.is_empty() {
                return None;
            }
        }
        // A used entry moves to the young generation, and so survives the next change of generations.
        let found = self.generations.write().old.remove(hash)?;
        self.insert(*hash, Arc::clone(&found));
        Some(found)
    }

    pub(super) fn insert(&self, hash: Hash, entry: Arc<T>) {
        let mut generations = self.generations.write();
        if generations.young.len() >= GENERATION_CAPACITY {
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

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let cache = Cache::default();
        let entry = Arc::new(());
        let used = hash("used");
        cache.insert(used, Arc::clone(&entry));
        for i in 0..5 * GENERATION_CAPACITY {
            cache.insert(hash(&i.to_string()), Arc::clone(&entry));
            assert!(cache.len() <= 2 * GENERATION_CAPACITY);
            assert!(cache.get(&used).is_some());
        }
    }
}

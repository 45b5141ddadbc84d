//! Sets of nodes, one bit per node slot, for vectorised filters.

use crate::column::NodeIx;

/// A set of node slots. Bits beyond the stored words count as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BitSet {
    words: Vec<u64>,
}

fn place(node: NodeIx) -> (usize, u64) {
    ((node.0 >> 6) as usize, 1 << (node.0 & 63))
}

impl BitSet {
    /// Adds a node.
    pub(crate) fn insert(&mut self, node: NodeIx) {
        let (word, bit) = place(node);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        if let Some(slot) = self.words.get_mut(word) {
            *slot |= bit;
        }
    }

    /// Removes a node.
    pub(crate) fn remove(&mut self, node: NodeIx) {
        let (word, bit) = place(node);
        if let Some(slot) = self.words.get_mut(word) {
            *slot &= !bit;
        }
    }

    /// Adds or removes a node.
    pub(crate) fn set(&mut self, node: NodeIx, present: bool) {
        if present {
            self.insert(node);
        } else {
            self.remove(node);
        }
    }

    /// Whether the node is in the set.
    pub(crate) fn contains(&self, node: NodeIx) -> bool {
        let (word, bit) = place(node);
        self.words.get(word).is_some_and(|slot| slot & bit != 0)
    }

    /// Returns the number of nodes in the set.
    pub(crate) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no node is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Removes all nodes, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
    }

    /// Copies `other` into this set, keeping the memory.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.words.clear();
        self.words.extend_from_slice(&other.words);
    }

    /// Adds all nodes of `other`.
    pub(crate) fn union_with(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
    }

    /// Removes all nodes of `other`.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= !theirs;
        }
    }

    /// Keeps only nodes that are in `other` too.
    pub(crate) fn intersect_with(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= theirs;
        }
    }

    /// Returns the nodes in ascending order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NodeIx> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| Ones { base: (index as u32) << 6, word: *word })
    }

    /// Fills the set from a test of each slot below `slots`, 64 at a time.
    pub(crate) fn fill(&mut self, tests: impl Iterator<Item = bool>) {
        self.words.clear();
        let mut word = 0;
        let mut used = 0;
        for test in tests {
            word |= u64::from(test) << used;
            used += 1;
            if used == 64 {
                self.words.push(word);
                word = 0;
                used = 0;
            }
        }
        if used > 0 {
            self.words.push(word);
        }
    }

    /// Returns the raw words, for loops that pack and unpack bits themselves.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the raw words, for loops that pack bits themselves.
    pub(crate) fn words_mut(&mut self) -> &mut Vec<u64> {
        &mut self.words
    }
}

struct Ones {
    base: u32,
    word: u64,
}

impl Iterator for Ones {
    type Item = NodeIx;

    fn next(&mut self) -> Option<NodeIx> {
        if self.word == 0 {
            return None;
        }
        let bit = self.word.trailing_zeros();
        self.word &= self.word - 1;
        Some(NodeIx(self.base + bit))
    }
}

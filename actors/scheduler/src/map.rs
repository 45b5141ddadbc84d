//! Hash maps with a fixed seed: nothing may be decided from their order, and a run replays exactly.

/// A hash map whose hasher has no random state.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;
/// A hash set whose hasher has no random state.
pub(crate) type Set<K> = std::collections::HashSet<K, foldhash::fast::FixedState>;

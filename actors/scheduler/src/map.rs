//! Hash maps with a fixed seed, so that runs are reproducible. No decision may depend on their order.

/// A hash map whose hasher has no random state.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;
/// A hash set whose hasher has no random state.
pub(crate) type Set<K> = std::collections::HashSet<K, foldhash::fast::FixedState>;

//! Selects the ended pods beyond the threshold.

use std::sync::Arc;

use oarlock_informer::Item;

use crate::project::PodView;

/// Returns the oldest ended pods beyond the threshold.
pub(super) fn surplus(mut ended: Vec<Arc<Item<PodView>>>, threshold: usize) -> Vec<Arc<Item<PodView>>> {
    let count = ended.len().saturating_sub(threshold);
    ended.sort_by(|a, b| (a.meta.created, a.key()).cmp(&(b.meta.created, b.key())));
    ended.truncate(count);
    ended
}

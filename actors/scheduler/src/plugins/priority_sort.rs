//! PrioritySort: pods of higher priority first, then those queued earlier.

use std::cmp::Reverse;

use crate::framework::SortKey;
use crate::model::PodInfo;
use crate::plugin::Plugin;

/// The row of PrioritySort in the table of plugins.
pub(crate) const ROW: Plugin = Plugin { name: "PrioritySort", queue_sort: Some(key), ..Plugin::NONE };

/// Returns the sort key of a pod in the active queue.
fn key(pod: &PodInfo, queued: u64) -> SortKey {
    (Reverse(pod.priority), queued)
}

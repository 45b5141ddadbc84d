//! Counts requests.

use std::sync::LazyLock;
use std::time::Duration;

use oarlock_runtime::{Instant, clock};
use oarlock_telemetry::metrics::ExemplarLabels;

use super::families::Requests;
use super::labels::RequestLabels;
use super::series::SeriesTable;

/// The series of the process. They live as long as the process does, like the registry that shows them.
static TABLE: LazyLock<&'static SeriesTable> = LazyLock::new(|| {
    let table: &'static SeriesTable = Box::leak(Box::new(SeriesTable::new()));
    oarlock_telemetry::registry().declare(|registry| registry.register_collector(Box::new(Requests(table))));
    table
});

/// Counts an answered request: its code, its time, the length of its answer if that is known, and the trace of a sampled request.
pub(crate) fn answered(
    labels: RequestLabels,
    code: u16,
    took: Duration,
    details: (Option<u64>, Option<ExemplarLabels>),
) {
    TABLE.answered(labels, code, took, details);
}

/// Counts a request that the server ended to protect itself: with 429 at a limit, with 504 at the request's deadline.
pub(crate) fn terminated(labels: RequestLabels, code: u16) {
    TABLE.terminated(labels, code);
}

/// An open watch. The watch counts as an answered request when the value is dropped, as upstream's do.
#[derive(Debug)]
pub(crate) struct OpenWatch {
    labels: RequestLabels,
    began: Instant,
}

impl OpenWatch {
    pub(crate) fn begin(labels: RequestLabels) -> Self {
        TABLE.opened(labels, 1);
        Self { labels, began: clock::now() }
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        TABLE.opened(self.labels, -1);
        TABLE.answered(self.labels, 200, self.began.elapsed(), (None, None));
    }
}

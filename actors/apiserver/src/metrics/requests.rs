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

/// A request that is being answered. A request whose client leaves before the answer counts too, when the value is dropped, with the code of those that have no label.
#[derive(Debug)]
pub(crate) struct Answering {
    labels: RequestLabels,
    began: Instant,
    counted: bool,
}

/// The code of a request without an answer.
const NO_ANSWER: u16 = 0;

impl Answering {
    pub(crate) const fn begin(labels: RequestLabels, began: Instant) -> Self {
        Self { labels, began, counted: false }
    }

    /// Counts the answer. A watch that has begun counts when it ends.
    pub(crate) fn end(mut self, code: u16, ended: Instant, details: (Option<u64>, Option<ExemplarLabels>)) {
        self.counted = true;
        if !(self.labels.is_watch() && (200..300).contains(&code)) {
            answered(self.labels, code, ended - self.began, details);
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if !self.counted {
            answered(self.labels, NO_ANSWER, self.began.elapsed(), (None, None));
        }
    }
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

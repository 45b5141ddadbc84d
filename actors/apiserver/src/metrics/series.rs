//! The series of requests: found by index, made at the first request of their labels.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use oarlock_runtime::clock;
use oarlock_telemetry::metrics::{ExemplarLabels, Histogram, HistogramWithExemplars, exponential};

use super::endpoints;
use super::labels::{DryRun, RequestLabels, Scope, Verb};

/// Bounds of `apiserver_request_duration_seconds`.
const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
/// Bounds of `apiserver_request_sli_duration_seconds`.
const SLI_DURATIONS: [f64; 21] =
    [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0];

/// Codes with a label of their own: those that the server sends. A proxied answer may have any code; the others count as one.
pub(super) const CODES: [(u16, &str); 37] = [
    (101, "101"),
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (203, "203"),
    (204, "204"),
    (206, "206"),
    (301, "301"),
    (302, "302"),
    (304, "304"),
    (307, "307"),
    (308, "308"),
    (400, "400"),
    (401, "401"),
    (402, "402"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (408, "408"),
    (409, "409"),
    (410, "410"),
    (411, "411"),
    (412, "412"),
    (413, "413"),
    (414, "414"),
    (415, "415"),
    (416, "416"),
    (422, "422"),
    (429, "429"),
    (431, "431"),
    (500, "500"),
    (501, "501"),
    (502, "502"),
    (503, "503"),
    (504, "504"),
    (505, "505"),
];
/// Label of the codes that have none of their own.
pub(super) const OTHER_CODE: &str = "other";

/// Codes with which the server ends a request to protect itself.
pub(super) const TERMINATIONS: [(u16, &str); 2] = [(429, "429"), (504, "504")];

/// Number of series of one endpoint, used or not.
const SLOTS: usize = Verb::ALL.len() * Scope::ALL.len() * DryRun::ALL.len();

/// The metrics of the requests with one set of labels.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) labels: RequestLabels,
    /// Answered requests, by [`CODES`]; the last counts all other codes.
    pub(super) codes: [AtomicU64; CODES.len() + 1],
    pub(super) durations: HistogramWithExemplars,
    /// The same without dry runs. Upstream leaves out the time of webhooks and of queues as well.
    pub(super) sli: Option<Histogram>,
    /// Bytes of answers, of reads alone.
    pub(super) sizes: Option<Histogram>,
    /// Requests ended in self-defence, by [`TERMINATIONS`].
    pub(super) terminations: [AtomicU64; TERMINATIONS.len()],
    /// Open watches.
    pub(super) open: AtomicI64,
}

impl Series {
    fn new(labels: RequestLabels) -> Self {
        let reads = matches!(labels.verb, Verb::Get | Verb::List);
        Self {
            labels,
            codes: std::array::from_fn(|_| AtomicU64::new(0)),
            durations: HistogramWithExemplars::new(DURATIONS),
            sli: (labels.dry_run == DryRun::None).then(|| Histogram::new(SLI_DURATIONS)),
            sizes: reads.then(|| Histogram::new(exponential(1000.0, 10.0, 7))),
            terminations: std::array::from_fn(|_| AtomicU64::new(0)),
            open: AtomicI64::new(0),
        }
    }
}

type Slots = Box<[OnceLock<Box<Series>>]>;

/// All series of the process: for each endpoint, once it is used, a slot for each verb, scope and dry run.
#[derive(Debug)]
pub(super) struct SeriesTable(Vec<OnceLock<Slots>>);

impl SeriesTable {
    pub(super) fn new() -> Self {
        Self((0..endpoints::count()).map(|_| OnceLock::new()).collect())
    }

    /// Returns the series of some labels; `None` for labels that no table has.
    fn series(&self, labels: RequestLabels) -> Option<&Series> {
        let slots = self.0.get(labels.endpoint.index())?.get_or_init(|| (0..SLOTS).map(|_| OnceLock::new()).collect());
        let slot = (labels.verb as usize * Scope::ALL.len() + labels.scope as usize) * DryRun::ALL.len()
            + labels.dry_run as usize;
        Some(slots.get(slot)?.get_or_init(|| Box::new(Series::new(labels))))
    }

    /// Returns the series of all labels that have occurred.
    pub(super) fn used(&self) -> impl Iterator<Item = &Series> {
        self.0.iter().filter_map(OnceLock::get).flatten().filter_map(OnceLock::get).map(Box::as_ref)
    }

    pub(super) fn answered(
        &self,
        labels: RequestLabels,
        code: u16,
        took: Duration,
        (bytes, exemplar): (Option<u64>, Option<ExemplarLabels>),
    ) {
        let Some(series) = self.series(labels) else { return };
        let at = CODES.binary_search_by_key(&code, |(known, _)| *known).unwrap_or(CODES.len());
        if let Some(count) = series.codes.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let seconds = took.as_secs_f64();
        let when = exemplar.is_some().then(|| clock::wall().into());
        series.durations.observe(seconds, exemplar, when);
        if let Some(sli) = &series.sli {
            sli.observe(seconds);
        }
        if let (Some(sizes), Some(bytes)) = (&series.sizes, bytes) {
            sizes.observe(bytes as f64);
        }
    }

    pub(super) fn terminated(&self, labels: RequestLabels, code: u16) {
        let at = TERMINATIONS.iter().position(|(known, _)| *known == code);
        if let Some(count) = self.series(labels).zip(at).and_then(|(series, at)| series.terminations.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn opened(&self, labels: RequestLabels, change: i64) {
        if let Some(series) = self.series(labels) {
            series.open.fetch_add(change, Ordering::Relaxed);
        }
    }
}

//! The Prometheus metrics of work queues, under upstream's names (`workqueue_*`, label `name`).

use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::work_queue::QueueStats;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    name: &'static str,
}

type Histograms = Family<Name, Histogram, fn() -> Histogram>;

struct All {
    depth: Family<Name, Gauge>,
    adds: Family<Name, Counter>,
    retries: Family<Name, Counter>,
    waited: Histograms,
    worked: Histograms,
}

static ALL: LazyLock<All> = LazyLock::new(|| {
    let buckets: fn() -> Histogram = || Histogram::new(exponential_buckets(1e-6, 10.0, 10));
    let all = All {
        depth: Family::default(),
        adds: Family::default(),
        retries: Family::default(),
        waited: Histograms::new_with_constructor(buckets),
        worked: Histograms::new_with_constructor(buckets),
    };
    oarlock_telemetry::registry().declare(|registry| {
        registry.register("workqueue_depth", "keys that wait for a worker", all.depth.clone());
        registry.register("workqueue_adds", "keys handed to the queue", all.adds.clone());
        registry.register("workqueue_retries", "keys that came back after a failure", all.retries.clone());
        registry.register("workqueue_queue_duration_seconds", "time from add to worker", all.waited.clone());
        registry.register("workqueue_work_duration_seconds", "time a worker took", all.worked.clone());
    });
    all
});

/// The metrics of one controller's queue.
#[derive(Debug)]
pub(crate) struct QueueMetrics {
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
    last: Mutex<QueueStats>,
}

impl QueueMetrics {
    pub(crate) fn new(name: &'static str) -> Self {
        let name = Name { name };
        Self {
            depth: ALL.depth.get_or_create(&name).clone(),
            adds: ALL.adds.get_or_create(&name).clone(),
            retries: ALL.retries.get_or_create(&name).clone(),
            waited: ALL.waited.get_or_create(&name).clone(),
            worked: ALL.worked.get_or_create(&name).clone(),
            last: Mutex::default(),
        }
    }

    /// Records that a worker took a key that had waited for `waited`.
    pub(crate) fn took(&self, stats: QueueStats, waited: Duration) {
        self.waited.observe(waited.as_secs_f64());
        self.follow(stats);
    }

    /// Records that a worker finished a key after `worked`.
    pub(crate) fn worked(&self, stats: QueueStats, worked: Duration) {
        self.worked.observe(worked.as_secs_f64());
        self.follow(stats);
    }

    /// Adds the queue's changes since the last call to the metrics. Queues of one name (kubelets in one process) add up.
    fn follow(&self, stats: QueueStats) {
        let mut last = self.last.lock();
        let signed = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.depth.inc_by(signed(stats.ready) - signed(last.ready));
        self.adds.inc_by(stats.added.saturating_sub(last.added));
        self.retries.inc_by(stats.retries.saturating_sub(last.retries));
        *last = stats;
    }
}

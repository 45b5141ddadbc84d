//! The Prometheus metrics of work queues, under upstream's names (`workqueue_*`, label `name`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use oarlock_runtime::{Instant, clock};
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::metrics::{Histogram, exponential};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::work_queue::QueueStats;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    name: &'static str,
}

type Histograms = Family<Name, Histogram, fn() -> Histogram>;

/// The metrics of all queues of a process.
struct All {
    depth: Family<Name, Gauge>,
    adds: Family<Name, Counter>,
    retries: Family<Name, Counter>,
    waited: Histograms,
    worked: Histograms,
    working: Arc<Working>,
}

static ALL: LazyLock<All> = LazyLock::new(|| {
    let all = All::new();
    oarlock_telemetry::registry().declare(|registry| all.register(registry));
    all
});

impl All {
    fn new() -> Self {
        // Upstream's bounds: ten powers of ten from 10 ns.
        let histogram: fn() -> Histogram = || Histogram::new(exponential(10e-9, 10.0, 10));
        Self {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: Histograms::new_with_constructor(histogram),
            worked: Histograms::new_with_constructor(histogram),
            working: Arc::default(),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("workqueue_depth", "keys that wait for a worker", self.depth.clone());
        registry.register("workqueue_adds", "keys handed to the queue", self.adds.clone());
        registry.register("workqueue_retries", "keys that came back after a failure", self.retries.clone());
        registry.register("workqueue_queue_duration_seconds", "time from add to worker", self.waited.clone());
        registry.register("workqueue_work_duration_seconds", "time a worker took", self.worked.clone());
        registry.register_collector(Box::new(Arc::clone(&self.working)));
    }
}

/// The keys that workers are processing, by when they began.
#[derive(Debug, Default)]
struct Begun(Mutex<Vec<Instant>>);

/// The keys in progress of each queue.
#[derive(Debug, Default)]
struct Working(Mutex<Vec<(&'static str, Weak<Begun>)>>);

impl Working {
    fn add(&self, name: &'static str, begun: &Arc<Begun>) {
        let mut queues = self.0.lock();
        queues.retain(|(_, queue)| queue.strong_count() > 0);
        queues.push((name, Arc::downgrade(begun)));
    }

    /// Returns the time that the keys in progress have taken so far, by name: of all together, and of the first.
    fn times(&self) -> BTreeMap<&'static str, (Duration, Duration)> {
        let now = clock::now();
        let mut times = BTreeMap::new();
        for (name, queue) in &*self.0.lock() {
            let Some(begun) = queue.upgrade() else { continue };
            let (all, longest): &mut (Duration, Duration) = times.entry(*name).or_default();
            for began in &*begun.0.lock() {
                let took = now - *began;
                *all += took;
                *longest = took.max(*longest);
            }
        }
        times
    }
}

impl Collector for Working {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let times = self.times();
        let name = "workqueue_unfinished_work_seconds";
        let help = "time that the keys in progress have taken so far, all together";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (name, (all, _)) in &times {
            family.encode_family(&[("name", *name)])?.encode_gauge(&all.as_secs_f64())?;
        }
        let name = "workqueue_longest_running_processor_seconds";
        let help = "time that the longest of the keys in progress has taken so far";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (name, (_, longest)) in &times {
            family.encode_family(&[("name", *name)])?.encode_gauge(&longest.as_secs_f64())?;
        }
        Ok(())
    }
}

/// The metrics of one controller's queue. A queue that is dropped, as with a unit that moved to another process, leaves the gauges; what it counted stays.
#[derive(Debug)]
pub(crate) struct QueueMetrics {
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
    begun: Arc<Begun>,
    last: Mutex<QueueStats>,
}

impl QueueMetrics {
    pub(crate) fn new(name: &'static str) -> Self {
        Self::of(&ALL, name)
    }

    fn of(all: &All, name: &'static str) -> Self {
        let begun = Arc::<Begun>::default();
        all.working.add(name, &begun);
        let name = Name { name };
        Self {
            depth: all.depth.get_or_create_owned(&name),
            adds: all.adds.get_or_create_owned(&name),
            retries: all.retries.get_or_create_owned(&name),
            waited: all.waited.get_or_create_owned(&name),
            worked: all.worked.get_or_create_owned(&name),
            begun,
            last: Mutex::default(),
        }
    }

    /// Records that a worker took a key at `began` that had waited for `waited`.
    pub(crate) fn took(&self, stats: QueueStats, waited: Duration, began: Instant) {
        self.waited.observe(waited.as_secs_f64());
        self.begun.0.lock().push(began);
        self.follow(stats);
    }

    /// Records that a worker finished a key that it took at `began`.
    pub(crate) fn worked(&self, stats: QueueStats, began: Instant) {
        self.worked.observe(began.elapsed().as_secs_f64());
        {
            let mut begun = self.begun.0.lock();
            if let Some(at) = begun.iter().position(|known| *known == began) {
                begun.swap_remove(at);
            }
        }
        self.follow(stats);
    }

    /// Adds the queue's changes since the last call to the metrics. Queues of one name (kubelets in one process) add up.
    fn follow(&self, stats: QueueStats) {
        let mut last = self.last.lock();
        self.depth.inc_by(signed(stats.ready) - signed(last.ready));
        self.adds.inc_by(stats.added.saturating_sub(last.added));
        self.retries.inc_by(stats.retries.saturating_sub(last.retries));
        *last = stats;
    }
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Drop for QueueMetrics {
    fn drop(&mut self) {
        if !seeded_bug!("depth_of_a_dropped_queue") {
            self.depth.dec_by(signed(self.last.get_mut().ready));
        }
    }
}

#[cfg(test)]
mod tests {
    use oarlock_telemetry::metrics::{Format, encode};

    use super::*;

    fn value(registry: &Registry, name: &str) -> Option<f64> {
        let text = encode(Format::OpenMetrics, [registry]);
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_is_dropped_leaves_its_counts_and_takes_its_gauges() {
        let (all, mut registry) = (All::new(), Registry::default());
        all.register(&mut registry);
        let queue = QueueMetrics::of(&all, "job");
        let other = QueueMetrics::of(&all, "job");
        let stats = |ready, added| QueueStats { ready, added, ..QueueStats::default() };
        other.took(stats(1, 2), Duration::ZERO, clock::now());
        let began = clock::now();
        queue.took(stats(5, 6), Duration::from_millis(20), began);
        clock::sleep(Duration::from_secs(3)).await;
        assert_eq!(value(&registry, "workqueue_depth{name=\"job\"}"), Some(6.0));
        assert_eq!(value(&registry, "workqueue_adds_total{name=\"job\"}"), Some(8.0));
        assert_eq!(value(&registry, "workqueue_unfinished_work_seconds{name=\"job\"}"), Some(6.0));
        assert_eq!(value(&registry, "workqueue_longest_running_processor_seconds{name=\"job\"}"), Some(3.0));
        queue.worked(stats(4, 6), began);
        assert_eq!(value(&registry, "workqueue_unfinished_work_seconds{name=\"job\"}"), Some(3.0));
        drop(queue);
        assert_eq!(value(&registry, "workqueue_depth{name=\"job\"}"), Some(1.0));
        assert_eq!(value(&registry, "workqueue_adds_total{name=\"job\"}"), Some(8.0));
        assert_eq!(value(&registry, "workqueue_work_duration_seconds_count{name=\"job\"}"), Some(1.0));
        drop(other);
        assert_eq!(value(&registry, "workqueue_unfinished_work_seconds{name=\"job\"}"), None);
        let text = encode(Format::OpenMetrics, [&registry]);
        oarlock_testkit::metrics::check(
            &text,
            &[
                "workqueue_depth",
                "workqueue_adds_total",
                "workqueue_retries_total",
                "workqueue_queue_duration_seconds",
                "workqueue_work_duration_seconds",
            ],
        );
    }
}

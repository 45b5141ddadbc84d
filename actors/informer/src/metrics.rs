//! The Prometheus metrics of work queues, under upstream's names (`workqueue_*`, label `name`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use oarlock_runtime::{Instant, clock};
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::metrics::{Histogram, exponential};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::key::Key;
use crate::work_queue::{QueueStats, WorkQueue};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    name: &'static str,
}

type Histograms = Family<Name, Histogram, fn() -> Histogram>;

/// The metrics of all queues of a process.
struct All {
    waited: Histograms,
    worked: Histograms,
    queues: Arc<Queues>,
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
            waited: Histograms::new_with_constructor(histogram),
            worked: Histograms::new_with_constructor(histogram),
            queues: Arc::default(),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("workqueue_queue_duration_seconds", "time from add to worker", self.waited.clone());
        registry.register("workqueue_work_duration_seconds", "time a worker took", self.worked.clone());
        registry.register_collector(Box::new(Arc::clone(&self.queues)));
    }
}

/// A queue whose figures are read when they are asked for, so that they are true while no worker of the queue makes progress.
#[derive(Debug)]
struct Measured {
    queue: Arc<WorkQueue<Key>>,
    /// When the workers began with the keys in progress.
    begun: Mutex<Vec<Instant>>,
}

/// The figures of the queues of one name. Queues of one name (kubelets in one process) add up.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    depth: usize,
    added: u64,
    retries: u64,
    /// The time that the keys in progress have taken so far, all together.
    unfinished: Duration,
    /// The time that the longest of the keys in progress has taken so far.
    longest: Duration,
    /// Whether a queue is there.
    live: bool,
}

impl Figures {
    fn add(&mut self, queue: &Measured, now: Instant) {
        let stats = queue.queue.stats_now();
        self.depth += stats.ready;
        self.count(stats);
        self.live = true;
        for began in &*queue.begun.lock() {
            let took = now - *began;
            self.unfinished += took;
            self.longest = took.max(self.longest);
        }
    }

    /// Adds what a queue has counted.
    fn count(&mut self, stats: QueueStats) {
        self.added += stats.added;
        self.retries += stats.retries;
    }
}

/// The queues of one name.
#[derive(Debug, Default)]
struct OfName {
    live: Vec<Arc<Measured>>,
    /// What the dropped queues counted.
    dropped: Figures,
}

/// All queues, by name.
#[derive(Debug, Default)]
struct Queues(Mutex<BTreeMap<&'static str, OfName>>);

impl Queues {
    fn figures(&self) -> BTreeMap<&'static str, Figures> {
        let now = clock::now();
        let of = |queues: &OfName| {
            let mut figures = queues.dropped;
            queues.live.iter().for_each(|queue| figures.add(queue, now));
            figures
        };
        self.0.lock().iter().map(|(name, queues)| (*name, of(queues))).collect()
    }
}

type Count = fn(&Figures) -> u64;
type Seconds = fn(&Figures) -> Duration;

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let figures = self.figures();
        let counts: [(_, _, Count); 2] = [
            ("workqueue_adds", "keys handed to the queue", |figures| figures.added),
            ("workqueue_retries", "keys that came back after a failure", |figures| figures.retries),
        ];
        for (name, help, count) in counts {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (name, figures) in &figures {
                let count = count(figures);
                family.encode_family(&[("name", *name)])?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }
        let help = "keys that wait for a worker";
        let mut family = encoder.encode_descriptor("workqueue_depth", help, None, MetricType::Gauge)?;
        for (name, figures) in &figures {
            family.encode_family(&[("name", *name)])?.encode_gauge(&(figures.depth as u64))?;
        }
        let times: [(_, _, Seconds); 2] = [
            (
                "workqueue_unfinished_work_seconds",
                "time that the keys in progress have taken so far, all together",
                |figures| figures.unfinished,
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "time that the longest of the keys in progress has taken so far",
                |figures| figures.longest,
            ),
        ];
        for (name, help, time) in times {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (name, figures) in figures.iter().filter(|(_, figures)| figures.live) {
                family.encode_family(&[("name", *name)])?.encode_gauge(&time(figures).as_secs_f64())?;
            }
        }
        Ok(())
    }
}

/// The metrics of one controller's queue. A queue that is dropped, as with a unit that moved to another process, leaves the gauges; what it counted stays.
#[derive(Debug)]
pub(crate) struct QueueMetrics {
    name: &'static str,
    waited: Histogram,
    worked: Histogram,
    measured: Arc<Measured>,
    queues: Arc<Queues>,
}

impl QueueMetrics {
    pub(crate) fn new(name: &'static str, queue: Arc<WorkQueue<Key>>) -> Self {
        Self::of(&ALL, name, queue)
    }

    fn of(all: &All, name: &'static str, queue: Arc<WorkQueue<Key>>) -> Self {
        let measured = Arc::new(Measured { queue, begun: Mutex::default() });
        all.queues.0.lock().entry(name).or_default().live.push(Arc::clone(&measured));
        let labels = Name { name };
        Self {
            name,
            waited: all.waited.get_or_create_owned(&labels),
            worked: all.worked.get_or_create_owned(&labels),
            measured,
            queues: Arc::clone(&all.queues),
        }
    }

    /// Records that a worker took a key at `began` that had waited for `waited`.
    pub(crate) fn took(&self, waited: Duration, began: Instant) {
        self.waited.observe(waited.as_secs_f64());
        self.measured.begun.lock().push(began);
    }

    /// Records that a worker finished a key that it took at `began`.
    pub(crate) fn worked(&self, began: Instant) {
        self.worked.observe(began.elapsed().as_secs_f64());
        let mut begun = self.measured.begun.lock();
        if let Some(at) = begun.iter().position(|known| *known == began) {
            begun.swap_remove(at);
        }
    }
}

impl Drop for QueueMetrics {
    fn drop(&mut self) {
        if seeded_bug!("depth_of_a_dropped_queue") {
            return;
        }
        // The queue's counts move in one step, so that a scrape has them once.
        if let Some(of_name) = self.queues.0.lock().get_mut(self.name) {
            of_name.live.retain(|queue| !Arc::ptr_eq(queue, &self.measured));
            of_name.dropped.count(self.measured.queue.stats());
        }
    }
}

#[cfg(test)]
mod tests {
    use oarlock_telemetry::metrics::{Format, encode};

    use super::*;

    fn value(registry: &Registry, name: &str) -> Option<f64> {
        let text = encode(Format::OpenMetrics, [registry]);
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("{name=\"job\"} ")?.parse().ok())
    }

    fn add(queue: &WorkQueue<Key>, count: usize) {
        (0..count).for_each(|number| queue.add(Key::new("default", format!("key-{number}"))));
    }

    /// A worker of a queue takes a key, with which it begins now.
    async fn take(metrics: &QueueMetrics, queue: &WorkQueue<Key>) -> (Key, Instant) {
        let (key, waited) = queue.get_timed().await.unwrap();
        let began = clock::now();
        metrics.took(waited, began);
        (key, began)
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_is_dropped_leaves_its_counts_and_takes_its_gauges() {
        let (all, mut registry) = (All::new(), Registry::default());
        all.register(&mut registry);
        let [first, second] = [(); 2].map(|()| Arc::new(WorkQueue::default()));
        let queue = QueueMetrics::of(&all, "job", Arc::clone(&first));
        let other = QueueMetrics::of(&all, "job", Arc::clone(&second));
        add(&first, 6);
        add(&second, 2);
        take(&other, &second).await;
        let (key, began) = take(&queue, &first).await;
        clock::sleep(Duration::from_secs(3)).await;
        assert_eq!(value(&registry, "workqueue_depth"), Some(6.0));
        assert_eq!(value(&registry, "workqueue_adds_total"), Some(8.0));
        assert_eq!(value(&registry, "workqueue_unfinished_work_seconds"), Some(6.0));
        assert_eq!(value(&registry, "workqueue_longest_running_processor_seconds"), Some(3.0));
        first.add_failed(key.clone());
        first.done(&key);
        queue.worked(began);
        assert_eq!(value(&registry, "workqueue_unfinished_work_seconds"), Some(3.0));
        drop(queue);
        assert_eq!(value(&registry, "workqueue_depth"), Some(1.0));
        assert_eq!(value(&registry, "workqueue_adds_total"), Some(8.0));
        assert_eq!(value(&registry, "workqueue_retries_total"), Some(1.0));
        assert_eq!(value(&registry, "workqueue_work_duration_seconds_count"), Some(1.0));
        drop(other);
        assert_eq!(value(&registry, "workqueue_depth"), Some(0.0));
        assert_eq!(value(&registry, "workqueue_unfinished_work_seconds"), None);
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

    #[tokio::test(start_paused = true)]
    async fn a_queue_whose_workers_hang_has_true_figures() {
        let (all, mut registry) = (All::new(), Registry::default());
        all.register(&mut registry);
        let queue = Arc::new(WorkQueue::default());
        let metrics = QueueMetrics::of(&all, "job", Arc::clone(&queue));
        add(&queue, 1);
        // The only worker never ends.
        take(&metrics, &queue).await;
        queue.add_after(Key::new("default", "later"), Duration::from_secs(5));
        for (seconds, depth) in [(4, 7.0), (8, 8.0)] {
            add(&queue, 8);
            clock::sleep(Duration::from_secs(4)).await;
            let took = Some(f64::from(seconds));
            // The key in progress is wanted again; it waits for its worker, not for a free one.
            assert_eq!(value(&registry, "workqueue_depth"), Some(depth), "after {seconds} s");
            assert_eq!(value(&registry, "workqueue_unfinished_work_seconds"), took);
            assert_eq!(value(&registry, "workqueue_longest_running_processor_seconds"), took);
        }
        // The key in progress twice, seven that wait, and one whose delay has passed.
        assert_eq!(value(&registry, "workqueue_adds_total"), Some(10.0));
    }
}

//! The process's metric registry, served at `/metrics` in two formats of Prometheus. Each crate declares its metrics in one file, under upstream's names where dashboards
//! rely on them.

mod buckets;
mod exemplar;
mod exemplar_text;
mod format;
mod histogram;
mod histogram_with_exemplars;
mod text;

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

use crate::process::Process;

pub use buckets::exponential;
pub use exemplar::{ExemplarLabels, exemplar};
pub use format::Format;
pub use histogram::Histogram;
pub use histogram_with_exemplars::HistogramWithExemplars;
pub use prometheus_client;

use text::Lines;

/// A registry of metrics. No lock is held while the metrics are rendered, so that a crate whose first metric is declared meanwhile does not wait.
#[derive(Debug, Default)]
pub struct Metrics {
    /// A registry for each declaration, in order.
    declared: Mutex<Vec<Arc<Registry>>>,
}

static PROCESS: LazyLock<Metrics> = LazyLock::new(|| {
    let metrics = Metrics::default();
    metrics.declare(|registry| registry.register_collector(Box::new(Process)));
    metrics
});

/// Returns the registry of this process.
#[must_use]
pub fn registry() -> &'static Metrics {
    &PROCESS
}

impl Metrics {
    /// Registers metrics.
    pub fn declare(&self, declare: impl FnOnce(&mut Registry)) {
        let mut registry = Registry::default();
        declare(&mut registry);
        self.declared.lock().push(Arc::new(registry));
    }

    /// Renders all metrics as text, followed by those of another registry.
    #[must_use]
    pub fn encode_with(&self, format: Format, more: &Registry) -> String {
        let declared = self.declared.lock().clone();
        encode(format, declared.iter().map(Arc::as_ref).chain([more]))
    }
}

/// Renders the metrics of some registries as one text.
#[must_use]
pub fn encode<'a>(format: Format, registries: impl IntoIterator<Item = &'a Registry>) -> String {
    let mut lines = Lines::new(format);
    // Writing to a String cannot fail.
    let _ = registries
        .into_iter()
        .try_for_each(|registry| encode_registry(&mut lines, registry))
        .and_then(|()| encode_eof(&mut lines));
    lines.finish()
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::DescriptorEncoder;
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A collector that reports that it renders, and then waits.
    #[derive(Debug)]
    struct Slow(Sender<()>, Mutex<Receiver<()>>);

    impl Collector for Slow {
        fn encode(&self, _: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
            self.0.send(()).unwrap();
            self.1.lock().recv_timeout(LONG).unwrap();
            Ok(())
        }
    }

    #[test]
    fn metrics_are_declared_while_others_are_rendered() {
        let ((rendering, renders), (go_on, goes_on)) = (channel(), channel());
        let metrics = Metrics::default();
        metrics.declare(|registry| registry.register_collector(Box::new(Slow(rendering, Mutex::new(goes_on)))));
        let counter = |registry: &mut Registry| registry.register("adds", "Keys", Counter::<u64>::default());
        let none = Registry::default();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| metrics.encode_with(Format::OpenMetrics, &none));
            renders.recv_timeout(LONG).unwrap();
            metrics.declare(counter);
            go_on.send(()).unwrap();
            assert_eq!(first.join().unwrap(), "# EOF\n");
        });
        go_on.send(()).unwrap();
        let second = metrics.encode_with(Format::OpenMetrics, &none);
        assert_eq!(second, "# HELP adds Keys.\n# TYPE adds counter\nadds_total 0\n# EOF\n");
    }
}

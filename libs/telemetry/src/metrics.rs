//! The process's metric registry, served at `/metrics` in two formats of Prometheus. Each crate declares its metrics in one file, under upstream's names where dashboards
//! rely on them.

mod buckets;
mod exemplar;
mod format;
mod histogram;
mod text;

use std::sync::LazyLock;

use parking_lot::Mutex;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

use crate::process::Process;

pub use buckets::exponential;
pub use exemplar::{ExemplarLabels, exemplar};
pub use format::Format;
pub use histogram::Histogram;
pub use prometheus_client;

use text::Lines;

/// A registry of metrics.
#[derive(Debug, Default)]
pub struct Metrics {
    registry: Mutex<Registry>,
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
        declare(&mut self.registry.lock());
    }

    /// Renders all metrics as text, followed by those of another registry.
    #[must_use]
    pub fn encode_with(&self, format: Format, more: &Registry) -> String {
        encode(format, [&*self.registry.lock(), more])
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

//! The process's metric registry, served at `/metrics` in the Prometheus text format. Each crate declares its metrics in one file, under upstream's names where dashboards
//! rely on them.

use std::sync::LazyLock;

use parking_lot::Mutex;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::registry::Registry;

use crate::process::Process;

pub use prometheus_client;

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
    pub fn encode_with(&self, more: &Registry) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode_registry(&mut text, &self.registry.lock()).and_then(|()| encode(&mut text, more));
        text
    }
}

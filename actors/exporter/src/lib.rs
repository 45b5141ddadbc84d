//! Traces of a process: [`prepare`] reads the settings and starts to record, [`Traces::export`] starts the exporter where a collector is named.
//!
//! - [`EXPORTER`]: one actor takes sampled spans from a bounded queue and sends them in batches, by OTLP over gRPC or HTTP.
//! - No code that ends a span ever waits for the exporter. A collector that is slow, absent or refuses costs spans, and each lost span is counted (`oarlock_spans_dropped_total`).
//! - Exporting makes no spans.
//!
//! `docs/adr/0007-traces.md` has the reasons.

mod collector;
mod export;
mod http1;

use std::sync::Arc;
use std::time::Duration;

pub use oarlock_config::TracingState;
use oarlock_config::{OtlpProtocol, TracingExport, TracingOptions};
use oarlock_runtime::kind::{Backoff, Exhausted, OnFailure};
use oarlock_runtime::{ActorKind, Phase, System};
use oarlock_telemetry::traces::{self, ExportQueue, Settings};

/// The actor kind of the exporter. A failed exporter is started again without limit, because the process works without one.
pub static EXPORTER: ActorKind = ActorKind {
    name: "telemetry.exporter",
    phase: Phase::Telemetry,
    on_failure: OnFailure::Restart {
        backoff: Backoff { first: Duration::from_millis(100), max: Duration::from_secs(30) },
        max: u32::MAX,
        within: Duration::from_secs(60),
        then: Exhausted::GiveUp,
    },
    ..ActorKind::DEFAULT
};

/// The actor kinds of this crate.
pub static KINDS: &[&ActorKind] = &[&EXPORTER];

/// Why traces cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or is invalid.
    #[error(transparent)]
    Config(#[from] oarlock_config::Error),
    /// The collector's address or certificate, or a header, is invalid.
    #[error("export of traces to {endpoint}: {reason}")]
    Collector {
        /// URL of the collector.
        endpoint: String,
        /// What is wrong.
        reason: String,
    },
    /// The exporter cannot be spawned.
    #[error("the exporter of traces")]
    Spawn(#[from] oarlock_runtime::Error),
}

/// Traces of a process whose exporter does not run yet.
#[derive(Debug)]
#[must_use = "nothing is exported without the exporter"]
pub struct Traces {
    export: Option<(TracingExport, Arc<ExportQueue>)>,
    warnings: Vec<String>,
}

/// Reads flags and variables, and starts to record what they ask for. Logs are set up afterwards, because spans of requests pass through the same subscriber. `service` names the process where no
/// variable does, and `otherwise` is what the process records where nothing is said about it.
///
/// # Errors
/// [`Error::Config`].
pub fn prepare(options: &TracingOptions, service: &str, otherwise: TracingState) -> Result<Traces, Error> {
    let read = options.read(service)?;
    let export = read.export.map(|settings| {
        let queue = Arc::new(ExportQueue::new(settings.queue, settings.batch));
        traces::start(Settings::exported(settings.sampler, Arc::clone(&queue)));
        (settings, queue)
    });
    if export.is_none() && read.state.unwrap_or(otherwise) == TracingState::Ring {
        traces::start(Settings::ring());
    }
    Ok(Traces { export, warnings: read.warnings })
}

impl Traces {
    /// Logs variables without effect, and starts the exporter.
    ///
    /// # Errors
    /// [`Error::Collector`], [`Error::Spawn`].
    pub async fn export(self, system: &System) -> Result<(), Error> {
        for warning in &self.warnings {
            tracing::warn!(warning, "tracing");
        }
        if let Some((settings, queue)) = self.export {
            export(system, &settings, queue).await?;
        }
        Ok(())
    }
}

/// Starts an exporter of the spans of a queue.
///
/// # Errors
/// [`Error::Collector`], [`Error::Spawn`].
pub async fn export(system: &System, settings: &TracingExport, queue: Arc<ExportQueue>) -> Result<(), Error> {
    let (endpoint, protocol) = (&settings.endpoint, settings.protocol);
    let collector =
        collector::connect(settings).map_err(|reason| Error::Collector { endpoint: endpoint.clone(), reason })?;
    let parts = export::Parts { queue, collector, timeout: settings.timeout, delay: settings.delay };
    system.spawn_loop(&EXPORTER, "otlp", move |ctx| export::run(ctx, parts.clone())).await?;
    tracing::info!(endpoint, protocol = name(protocol), "exports traces");
    Ok(())
}

const fn name(protocol: OtlpProtocol) -> &'static str {
    match protocol {
        OtlpProtocol::Grpc => "grpc",
        OtlpProtocol::Http => "http/protobuf",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn rows_keep_the_rules_of_the_runtime() {
        assert_eq!(oarlock_runtime::kind::check(super::KINDS.iter().copied()), Ok(()));
    }
}

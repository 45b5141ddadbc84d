//! Flags and variables for the export of traces.

mod environment;
mod file;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use oarlock_telemetry::traces::Sampler;

use crate::Result;
use crate::files::text;
use environment::Variables;
use file::File;

/// What is recorded of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TracingState {
    /// Nothing.
    Off,
    /// The latest spans, in memory.
    Ring,
}

/// Flags for tracing. Without a file, the variables `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` name the collector; without any of these nothing is
/// exported.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TracingOptions {
    /// File of kind TracingConfiguration: the collector of traces, and the share of requests that is traced (docs/operations/tracing.md).
    #[arg(long, value_name = "FILE")]
    pub tracing_config_file: Option<PathBuf>,
    /// What is recorded of traces although nothing is exported: nothing (off), or the latest spans in memory (ring). Without this flag, spans are exported if a
    /// collector is named; if none is, `oarlock up` keeps the latest in memory, and other parts record nothing. OTEL_SDK_DISABLED=true is off.
    #[arg(long, value_name = "STATE", conflicts_with = "tracing_config_file")]
    pub tracing: Option<TracingState>,
}

/// The settings of the export of traces.
#[derive(Clone, Debug, PartialEq)]
pub struct TracingExport {
    /// Encoding and transport.
    pub protocol: OtlpProtocol,
    /// URL of the collector: of gRPC scheme, host and port; of HTTP with the whole path.
    pub endpoint: String,
    /// Headers or metadata of each request, by lower-case name. Values may be secret.
    pub headers: Vec<(String, String)>,
    /// Whether requests are compressed by gzip.
    pub gzip: bool,
    /// Deadline of one request.
    pub timeout: Duration,
    /// Certificate authorities (PEM) of the collector; `None` for those of the system.
    pub authorities: Option<String>,
    /// Which traces are exported.
    pub sampler: Sampler,
    /// The longest time that a span waits for more spans.
    pub delay: Duration,
    /// The most spans that wait.
    pub queue: usize,
    /// The most spans of one request.
    pub batch: usize,
    /// Attributes of the process, with `service.name`.
    pub resource: Vec<(String, String)>,
}

/// Encoding and transport of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// OTLP over gRPC.
    Grpc,
    /// OTLP as protobuf over HTTP/1.1.
    Http,
}

/// Result of reading flags and variables.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    /// What is recorded where nothing is exported; `None` where neither flag nor variable says so.
    pub state: Option<TracingState>,
    /// Settings of the export; `None` when nothing is exported.
    pub export: Option<TracingExport>,
    /// Variables that have no effect, for the log: a text for each.
    pub warnings: Vec<String>,
}

/// The endpoint of upstream's components that a file without an endpoint stands for.
const DEFAULT_ENDPOINT: &str = "localhost:4317";

impl TracingOptions {
    /// Reads the file, and the variables of this process.
    ///
    /// # Errors
    /// When the file cannot be read, is invalid, or a certificate that a variable names cannot be read.
    pub fn read(&self, service: &str) -> Result<Tracing> {
        // A variable that is not UTF-8 has no effect that could be warned about by its text.
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        self.read_with(service, variables)
    }

    /// Reads the file, and these variables. `service` is the name of the process where no variable names it.
    ///
    /// # Errors
    /// As [`TracingOptions::read`].
    pub fn read_with(&self, service: &str, variables: impl IntoIterator<Item = (String, String)>) -> Result<Tracing> {
        let file = self.tracing_config_file.as_deref().map(File::read).transpose()?;
        let mut variables = Variables::new(variables);
        let mut export = None;
        let state = if variables.sdk_disabled() { Some(TracingState::Off) } else { self.tracing };
        if !variables.exports_nothing() && state.is_none() {
            let named = match &file {
                Some(file) => Some((OtlpProtocol::Grpc, file.url.clone())),
                None => variables.endpoint(),
            };
            if let Some((protocol, endpoint)) = named {
                let sampler = file.map_or_else(|| variables.sampler(), |file| Sampler::parent_based(file.ratio));
                export = Some(TracingExport {
                    protocol,
                    endpoint,
                    headers: variables.headers(),
                    gzip: variables.gzip(),
                    timeout: variables.timeout(),
                    authorities: variables.certificate().map(|path| text(&path)).transpose()?,
                    sampler,
                    delay: variables.delay(),
                    queue: variables.queue(),
                    batch: variables.batch(),
                    resource: variables.resource(service),
                });
            }
        }
        Ok(Tracing { state, export, warnings: variables.warnings() })
    }
}

//! Logs to standard error: `--log` takes a filter such as `info` or `oarlock_store=debug,warn`.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Why logs could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter does not parse.
    #[error("log filter {filter:?}: {source}")]
    Filter {
        /// What was given.
        filter: String,
        /// Why it is none.
        source: tracing_subscriber::filter::ParseError,
    },
}

/// How lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Sets the process's log output up. A second call changes nothing.
///
/// # Errors
/// When `filter` is no filter.
pub fn init(filter: &str, format: Format) -> Result<(), Error> {
    let parsed = EnvFilter::try_new(filter).map_err(|source| Error::Filter { filter: filter.to_owned(), source })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_span_events(FmtSpan::NONE)
        .with_writer(std::io::stderr)
        .with_target(true);
    // Err means that a subscriber is set already, as in tests: the first one stays.
    let _ = match format {
        Format::Text => builder.with_ansi(false).try_init(),
        Format::Json => builder.json().try_init(),
    };
    Ok(())
}

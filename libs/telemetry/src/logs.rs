//! Logs to standard error: `--log` takes a filter such as `info` or `oarlock_store=debug,warn`.

use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::traces;

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log filter does not parse.
    #[error("log filter {filter:?}: {source}")]
    Filter {
        /// The given filter.
        filter: String,
        /// The parser's error.
        source: tracing_subscriber::filter::ParseError,
    },
}

/// Format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// Text for humans.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Sets up the process's log output, and the traces if [`traces::start`] was called before. A second call changes nothing.
///
/// # Errors
/// When `filter` does not parse.
pub fn init(filter: &str, format: Format) -> Result<(), Error> {
    let lines = tracing_subscriber::fmt::layer().with_span_events(FmtSpan::NONE).with_writer(std::io::stderr);
    let lines = match format {
        Format::Text => lines.with_ansi(false).boxed(),
        Format::Json => lines.json().boxed(),
    };
    let layers = match traces::layer() {
        None => vec![lines],
        Some(traces) => vec![traces.boxed(), lines.with_filter(traces::without_traces()).boxed()],
    };
    // `Err` means that a subscriber is already set, as in tests; the first one stays.
    let _ = tracing_subscriber::registry().with(layers).with(parse(filter, traces::exporting())?).try_init();
    Ok(())
}

/// Returns the texts of an error and all its sources, outermost first.
#[must_use]
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

/// Targets of noisy libraries, with the level kept of each: ractor holds a span open around every actor for its whole life, beside the runtime's own span per message;
/// async_nats logs each connection attempt as an error, which the bus logs once per outage.
const QUIETED_TARGETS: [(&str, &str); 2] = [("ractor", "ractor=warn"), ("async_nats", "async_nats=off")];

/// Parses `filter`, limits the targets in [`QUIETED_TARGETS`] that the filter does not name, and enables the spans of traces only when they are exported, whatever the filter says.
fn parse(filter: &str, traced: bool) -> Result<EnvFilter, Error> {
    let none = |source| Error::Filter { filter: filter.to_owned(), source };
    let unnamed = QUIETED_TARGETS.into_iter().filter(|(name, _)| !filter.contains(name)).map(|(_, level)| level);
    let traces = format!("{}={}", traces::TARGET, if traced { "info" } else { "off" });
    let mut directives = unnamed.chain([traces.as_str()]);
    directives.try_fold(EnvFilter::try_new(filter).map_err(none)?, |parsed, directive| {
        Ok(parsed.add_directive(directive.parse().map_err(none)?))
    })
}

#[cfg(test)]
mod tests {
    use tracing::{Level, span};

    use super::*;

    #[test]
    fn spans_of_traces_are_enabled_by_the_traces_alone() {
        let enabled = |filter: &str, traced: bool| {
            let subscriber = tracing_subscriber::registry().with(parse(filter, traced).unwrap());
            tracing::subscriber::with_default(subscriber, || {
                !span!(target: "oarlock::trace", Level::INFO, "request").is_disabled()
            })
        };
        for filter in ["warn", "debug", "oarlock=debug", "oarlock::trace=debug", "oarlock::trace=off"] {
            assert_eq!((enabled(filter, true), enabled(filter, false)), (true, false), "{filter}");
        }
    }

    #[test]
    fn the_span_of_the_actor_library_is_shown_only_when_asked_for() {
        let shown = |filter: &str| {
            let subscriber = tracing_subscriber::registry().with(parse(filter, false).unwrap());
            tracing::subscriber::with_default(subscriber, || {
                let theirs = span!(target: "ractor::actor", Level::INFO, "Actor");
                let ours = span!(target: "oarlock_runtime::incarnation", Level::INFO, "actor");
                let trouble = tracing::enabled!(target: "ractor::actor", Level::WARN);
                (!theirs.is_disabled(), !ours.is_disabled(), trouble)
            })
        };
        assert_eq!(shown("info"), (false, true, true));
        assert_eq!(shown("debug,oarlock_runtime=warn"), (false, false, true));
        assert_eq!(shown("warn,ractor=info"), (true, false, true));
    }

    #[test]
    fn the_client_of_nats_is_heard_only_when_asked_for() {
        let shown = |filter: &str| {
            let subscriber = tracing_subscriber::registry().with(parse(filter, false).unwrap());
            tracing::subscriber::with_default(subscriber, || {
                let theirs = tracing::enabled!(target: "async_nats::connector", Level::ERROR);
                (theirs, tracing::enabled!(target: "oarlock_bus::nats", Level::ERROR))
            })
        };
        assert_eq!(shown("info"), (false, true));
        assert_eq!(shown("warn,async_nats=error"), (true, true));
    }

    #[test]
    fn what_is_no_filter_is_named() {
        assert_eq!(parse("a=b=c", false).unwrap_err().to_string().split(':').next(), Some("log filter \"a=b=c\""));
    }
}

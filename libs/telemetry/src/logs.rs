//! Logs to standard error: `--log` takes a filter such as `info` or `oarlock_store=debug,warn`.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

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

/// Sets up the process's log output. A second call changes nothing.
///
/// # Errors
/// When `filter` does not parse.
pub fn init(filter: &str, format: Format) -> Result<(), Error> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parse(filter)?)
        .with_span_events(FmtSpan::NONE)
        .with_writer(std::io::stderr)
        .with_target(true);
    // `Err` means that a subscriber is already set, as in tests; the first one stays.
    let _ = match format {
        Format::Text => builder.with_ansi(false).try_init(),
        Format::Json => builder.json().try_init(),
    };
    Ok(())
}

/// Targets of noisy libraries, with the level kept of each: ractor holds a span open around every actor for its whole life, beside the runtime's own span per message;
/// async_nats logs each connection attempt as an error, which the bus logs once per outage.
const QUIETED_TARGETS: [(&str, &str); 2] = [("ractor", "ractor=warn"), ("async_nats", "async_nats=off")];

/// Parses `filter`, and limits the targets in [`QUIETED_TARGETS`] that the filter does not name.
fn parse(filter: &str) -> Result<EnvFilter, Error> {
    let none = |source| Error::Filter { filter: filter.to_owned(), source };
    let mut unnamed = QUIETED_TARGETS.into_iter().filter(|(name, _)| !filter.contains(name));
    unnamed.try_fold(EnvFilter::try_new(filter).map_err(none)?, |parsed, (_, directive)| {
        Ok(parsed.add_directive(directive.parse().map_err(none)?))
    })
}

#[cfg(test)]
mod tests {
    use tracing::{Level, span};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn the_span_of_the_actor_library_is_shown_only_when_asked_for() {
        let shown = |filter: &str| {
            let subscriber = tracing_subscriber::registry().with(parse(filter).unwrap());
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
            let subscriber = tracing_subscriber::registry().with(parse(filter).unwrap());
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
        assert_eq!(parse("a=b=c").unwrap_err().to_string().split(':').next(), Some("log filter \"a=b=c\""));
    }
}

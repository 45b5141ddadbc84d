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
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parse(filter)?)
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

/// What `filter` says, without the span that ractor holds open around every actor for as long as it lives: the runtime's own is about one
/// message. A filter that names ractor gets what it asks for.
fn parse(filter: &str) -> Result<EnvFilter, Error> {
    let none = |source| Error::Filter { filter: filter.to_owned(), source };
    let parsed = EnvFilter::try_new(filter).map_err(none)?;
    if filter.contains("ractor") {
        return Ok(parsed);
    }
    Ok(parsed.add_directive("ractor=warn".parse().map_err(none)?))
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
    fn what_is_no_filter_is_named() {
        assert_eq!(parse("a=b=c").unwrap_err().to_string().split(':').next(), Some("log filter \"a=b=c\""));
    }
}

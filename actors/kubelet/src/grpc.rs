//! Formats failures of gRPC calls as Go's gRPC does, since users know those texts.

use tonic::Code;

/// Returns the text of a failed call: `rpc error: code = NotFound desc = no such image`.
pub(crate) fn rpc_error(code: Code, description: &str) -> String {
    let code = if code == Code::Cancelled { "Canceled".to_owned() } else { format!("{code:?}") };
    format!("rpc error: code = {code} desc = {description}")
}

/// Returns the text of an error and its causes, outermost first, each text once.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.dedup();
    texts.join(": ")
}

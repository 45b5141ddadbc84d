//! `/debug/actors`: every actor of this process.

use crate::server::Server;

/// The actors as JSON.
#[must_use]
pub(crate) fn actors(server: &Server) -> String {
    serde_json::to_string(&server.system().snapshot()).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}

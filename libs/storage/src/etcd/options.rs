//! Options of an etcd log: endpoints, credentials and key layout.

use super::Dial;

/// The prefix of every key, upstream's default of `--etcd-prefix`.
pub const PREFIX: &str = "/registry";

/// Settings of an etcd log.
#[derive(Clone, Default)]
pub struct Options {
    /// Client endpoints, `http://` or `https://`.
    pub endpoints: Vec<String>,
    /// Replaces `/registry` at the front of every key; empty means upstream's default.
    pub prefix: String,
    /// The prefixes of all resources, as in a [`Key`](crate::Key): `/registry/pods/`. Other keys are ignored, except `/registry/<group with a dot>/<plural>/`, where custom
    /// resources are stored.
    pub resources: Vec<String>,
    /// Certificate authorities (PEM) trusted for the servers' certificates; the system's when `None`.
    pub authorities: Option<Vec<u8>>,
    /// The client's certificate and key, PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Name and password of an etcd user.
    pub credentials: Option<(String, String)>,
    /// Opens the connections to members; `None` for TCP.
    pub dial: Option<Dial>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys and passwords must not reach a log file.
        f.debug_struct("Options")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

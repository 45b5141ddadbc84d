//! How an etcd cluster is reached, and where in it the objects are.

/// The prefix of every key, upstream's default of `--etcd-prefix`.
pub const PREFIX: &str = "/registry";

/// How an etcd log is opened.
#[derive(Clone, Default)]
pub struct Options {
    /// Client endpoints, `http://` or `https://`.
    pub endpoints: Vec<String>,
    /// Replaces `/registry` at the front of every key; empty for upstream's default.
    pub prefix: String,
    /// The prefixes of all resources as they are in a [`Key`](crate::Key): `/registry/pods/`. Other keys are somebody else's, except
    /// `/registry/<group with a dot>/<plural>/`, where custom resources are.
    pub resources: Vec<String>,
    /// Authorities (PEM) that must have signed the servers' certificates; the system's when there are none.
    pub authorities: Option<Vec<u8>>,
    /// The client's certificate and key, PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Name and password of an etcd user.
    pub credentials: Option<(String, String)>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither key nor password belongs into a log.
        f.debug_struct("Options")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

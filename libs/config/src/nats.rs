//! Flags for connecting to the message bus.

use std::path::PathBuf;

use crate::Result;
use crate::files::text;

/// Name of the file with the roles' public keys, in the directory of the credentials.
pub const ROLE_KEYS: &str = "roles.pub";

/// Flags for the message bus. Without servers the process uses no bus.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NatsOptions {
    /// NATS servers of the message bus, all of one cluster: `nats://host:port` or `tls://host:port`, repeated or separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "URL,…")]
    pub nats_servers: Vec<String>,
    /// NKey seed for the login, as `oarlock keys` writes it: `nats/<role>.seed`.
    #[arg(long, value_name = "FILE", requires = "nats_servers")]
    pub nats_credentials: Option<PathBuf>,
    /// Public keys of the roles on the bus, as `oarlock keys` writes them: `nats/roles.pub`. API servers use them to verify policy verdicts from other processes; without keys
    /// they evaluate policies themselves. By default `roles.pub` in the directory of the credentials, if the file exists.
    #[arg(long, value_name = "FILE", requires = "nats_servers")]
    pub nats_role_keys: Option<PathBuf>,
    /// Certificate authorities (PEM) of the NATS servers; with this flag the servers must use TLS.
    #[arg(long, value_name = "FILE", requires = "nats_servers")]
    pub nats_ca: Option<PathBuf>,
}

/// Content of the files that the flags name.
#[derive(Clone)]
pub struct Nats {
    /// Addresses of the servers.
    pub servers: Vec<String>,
    /// Text of the seed file.
    pub credentials: Option<String>,
    /// Text of the file with the roles' public keys.
    pub role_keys: Option<String>,
    /// Certificate authorities, PEM.
    pub authorities: Option<String>,
}

impl NatsOptions {
    /// Reads the files; `None` without servers.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(&self) -> Result<Option<Nats>> {
        if self.nats_servers.is_empty() {
            return Ok(None);
        }
        let read = |path: &Option<PathBuf>| path.as_deref().map(text).transpose();
        let (credentials, authorities) = (read(&self.nats_credentials)?, read(&self.nats_ca)?);
        let role_keys = read(&self.nats_role_keys.clone().or_else(|| self.role_keys_beside()))?;
        Ok(Some(Nats { servers: self.nats_servers.clone(), credentials, role_keys, authorities }))
    }

    fn role_keys_beside(&self) -> Option<PathBuf> {
        let beside = self.nats_credentials.as_ref()?.with_file_name(ROLE_KEYS);
        beside.exists().then_some(beside)
    }

    /// Returns the flags for one of several nodes in a process: if the credentials are a directory, its file `node-<name>.seed`.
    #[must_use]
    pub fn of_node(&self, name: &str) -> Self {
        let own = |path: &PathBuf| if path.is_dir() { path.join(format!("node-{name}.seed")) } else { path.clone() };
        Self { nats_credentials: self.nats_credentials.as_ref().map(own), ..self.clone() }
    }
}

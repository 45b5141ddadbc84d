//! Flags for connecting to the API.

use std::path::PathBuf;

use crate::{Endpoint, Kubeconfig, Result};

/// Flags for connecting to API servers.
#[derive(Clone, Debug, clap::Args)]
pub struct ApiOptions {
    /// How to reach the API server, and as whom.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// API servers to speak to instead of the kubeconfig's one, all with its authorities: `https://host:port`, several times or with commas.
    /// Requests go to all that are ready, and a watch goes on at another when its own ends. A name with several addresses, here or in the
    /// kubeconfig, does the same.
    #[arg(long, visible_alias = "master", value_delimiter = ',', value_name = "URL,…")]
    pub server: Vec<String>,
}

impl ApiOptions {
    /// Reads the kubeconfig's current context, with the servers of the flag in place of the kubeconfig's.
    ///
    /// # Errors
    /// When the kubeconfig is unusable, or an address is invalid.
    pub fn read(&self) -> Result<Endpoint> {
        Kubeconfig::read(&self.kubeconfig)?.resolve(None)?.at(&self.server)
    }
}

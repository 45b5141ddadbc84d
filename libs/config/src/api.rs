//! Flags for connecting to the API.

use std::path::PathBuf;

use crate::{Endpoint, Kubeconfig, Result};

/// Flags for connecting to API servers.
#[derive(Clone, Debug, clap::Args)]
pub struct ApiOptions {
    /// Kubeconfig with the API server's address and the client's credential.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// API servers to use instead of the kubeconfig's, with the kubeconfig's authorities: `https://host:port`, repeated or separated by commas. Requests go to all ready
    /// servers, and a watch that ends continues at another server. A name with several addresses, here or in the kubeconfig, has the same effect.
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

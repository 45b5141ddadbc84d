//! A client of a command that asks something and ends.

use std::path::Path;
use std::sync::Arc;

use oarlock_client::{Client, Endpoint, Https};
use oarlock_config::Kubeconfig;
use oarlock_informer::GateSpawn;
use oarlock_runtime::{Phase, System};

/// As whom the kubeconfig says, of its server or those named instead. `agent` is the `User-Agent`.
///
/// # Errors
/// When the kubeconfig is unusable.
pub(crate) async fn of(kubeconfig: &Path, servers: &[String], agent: &str) -> anyhow::Result<Client> {
    let resolved = Kubeconfig::read(kubeconfig)?.resolve(None)?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let endpoint = Endpoint::new(&resolved.at(servers)?, agent)?;
    let connections = system.gate("client", Phase::Informers);
    Ok(Client::new(Arc::new(Https::new(endpoint, Arc::new(GateSpawn(connections)))?)))
}

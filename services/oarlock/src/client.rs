//! Makes API clients for commands that send a request or two and exit.

use std::sync::Arc;

use oarlock_client::{Client, Endpoint, Https};
use oarlock_informer::GateSpawn;
use oarlock_runtime::{Phase, System};

/// Returns a client of one of these servers. `agent` is the `User-Agent`.
///
/// # Errors
/// When the system cannot be started, or the identity is unusable.
pub(crate) async fn of(servers: &oarlock_config::Endpoint, agent: &str) -> anyhow::Result<Client> {
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let endpoint = Endpoint::new(servers, agent)?;
    let connections = system.gate("client", Phase::Informers);
    Ok(Client::new(Arc::new(Https::new(endpoint, Arc::new(GateSpawn(connections)))?)))
}

//! Connects a process to the bus, as a member or as a client that only asks.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use oarlock_bus::{Bus, Identity, Options, Role, Spawn};
use oarlock_config::{NatsOptions, in_the_clear};
use oarlock_runtime::{Gate, Phase, System, rng};

use crate::join_error::JoinError;
use crate::member::attend;
use crate::metrics;

/// Makes this process a member of the bus that the flags name; `None` if the flags name no bus. Does not wait for a connection: while the bus is not
/// connected, the process works as without a bus.
///
/// # Errors
/// [`JoinError`].
pub async fn join(system: &System, flags: &NatsOptions, role: Role, name: &str) -> Result<Option<Bus>, JoinError> {
    let bus = connect(system, flags, role, name)?;
    if let Some(bus) = &bus {
        metrics::show(bus);
        attend(system, bus).await?;
    }
    Ok(bus)
}

/// Connects to the bus as [`join`] does, but sends no heartbeats and answers no questions. For clients that only ask.
///
/// # Errors
/// [`JoinError`].
pub fn connect(system: &System, flags: &NatsOptions, role: Role, name: &str) -> Result<Option<Bus>, JoinError> {
    let Some(nats) = flags.read()? else { return Ok(None) };
    // With authorities the client requires TLS of every server, whatever the address's scheme.
    let open = nats.authorities.is_none().then(|| nats.servers.iter().find(|server| in_the_clear(server, "tls")));
    if let Some(server) = open.flatten() {
        tracing::warn!(
            server,
            "the bus is reached without TLS over a network: whoever is on the way hears and says everything; use tls:// and --nats-ca"
        );
    }
    let identity = Identity::new(role, name)?;
    let spawn = Arc::new(GateSpawn(system.gate(format!("bus/{identity}"), Phase::Informers)));
    let oarlock_config::Nats { servers, credentials, role_keys, authorities } = nats;
    let options = Options { servers, credentials, authorities, role_keys, spawn };
    Ok(Some(Bus::connect(options, identity)?))
}

/// Returns a name that no other process has: a DNS label of role, host and a random number.
#[must_use]
pub fn member_name(role: &str, host: &str) -> String {
    let label = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let host: String = host.to_lowercase().chars().map(label).take(30).collect();
    format!("oarlock-{role}-{host}-{:08x}", rng::below(1 << 32))
}

/// Spawns the tasks of the bus inside a gate, so that the tasks end with the gate.
struct GateSpawn(Gate);

impl Spawn for GateSpawn {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.attach("bus", task);
    }
}

//! Joining the bus.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use oarlock_bus::{BadName, BadOptions, Bus, Identity, Options, Role, Spawn};
use oarlock_config::{NatsOptions, in_the_clear};
use oarlock_runtime::{Gate, Phase, System, rng};

use crate::member::attend;
use crate::metrics;

/// This process cannot join the bus.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A file that the flags name cannot be read.
    #[error(transparent)]
    File(#[from] oarlock_config::Error),
    /// With these flags no connection can ever be made.
    #[error(transparent)]
    Options(#[from] BadOptions),
    /// The name cannot be part of a subject.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The runtime refused an actor.
    #[error("actor on the bus")]
    Spawn(#[from] oarlock_runtime::Error),
}

/// Makes this process a member of the bus that the flags name; `None` where they name none. Does not wait for a connection: without one everything
/// goes on as it would without a bus.
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

/// As [`join`], for who only asks.
///
/// # Errors
/// [`JoinError`].
pub fn connect(system: &System, flags: &NatsOptions, role: Role, name: &str) -> Result<Option<Bus>, JoinError> {
    let Some(nats) = flags.read()? else { return Ok(None) };
    // With authorities every server has to speak TLS, whatever its address says.
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

/// A name that no other process has: a DNS label that begins with role and host.
#[must_use]
pub fn member_name(role: &str, host: &str) -> String {
    let label = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let host: String = host.to_lowercase().chars().map(label).take(30).collect();
    format!("oarlock-{role}-{host}-{:08x}", rng::below(1 << 32))
}

/// Runs the tasks of the bus inside a gate, with which they end.
struct GateSpawn(Gate);

impl Spawn for GateSpawn {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.attach("bus", task);
    }
}

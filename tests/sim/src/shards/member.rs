//! One scheduler process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oarlock_apiserver::{InProcess, Server};
use oarlock_auth::UserInfo;
use oarlock_bus::{Bus, Exchange, Identity, Role};
use oarlock_client::Client;
use oarlock_runtime::shutdown::{Graces, shutdown};
use oarlock_runtime::{Gate, Options, Rng, System, clock};
use oarlock_scheduler::{Config, Scheduler};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::line::Line;

/// Grace of the removal of a killed process's actors.
const BURIAL: Duration = Duration::from_millis(100);

/// One scheduler process.
pub(super) struct Member {
    pub(super) host: String,
    pub(super) identity: Identity,
    life: CancellationToken,
    system: System,
    held: Arc<AtomicU64>,
}

impl Member {
    pub(super) async fn start(host: String, server: &Server, exchange: &Exchange, net: &Gate, rng: Rng) -> Self {
        let options = Options { host: host.as_str().into(), tick: Duration::from_secs(2), watchdog: None };
        let system = System::start(options).await.unwrap();
        let life = CancellationToken::new();
        let user = UserInfo::new("system:kube-scheduler", ["system:authenticated"]);
        let api = Arc::new(InProcess::new(server.clone(), user, "kube-scheduler/1"));
        let (rng, held) = (Arc::new(Mutex::new(rng)), Arc::new(AtomicU64::new(0)));
        let line = Line { api, life: life.clone(), net: net.clone(), rng, held: Arc::clone(&held) };
        let client = Client::new(Arc::new(line));
        let name = oarlock_mesh::member_name("scheduler", &host);
        let identity = Identity::new(Role::Scheduler, &name).unwrap();
        let bus = Bus::memory(exchange, identity.clone());
        oarlock_mesh::attend(&system, &bus).await.unwrap();
        let bus = Some(bus);
        let units = oarlock_scheduler::units();
        let member =
            oarlock_placement::Options { role: "scheduler", units, outside: Vec::new(), name, bus: bus.clone() };
        let placement = oarlock_placement::start(&system, client.clone(), member).await.unwrap();
        let config = Config { placement, bus, ..Config::default() };
        Scheduler::spawn(&system, client, config).await.unwrap();
        Self { host, identity, life, system, held }
    }

    /// Returns the published state of the scheduler.
    pub(super) fn seen(&self) -> Value {
        let actors = self.system.snapshot();
        actors.into_iter().find(|actor| actor.kind == "scheduler.shard").map(|actor| actor.state).unwrap_or_default()
    }

    /// Returns the published state of a resource's reflector.
    pub(super) fn reflector(&self, plural: &str) -> Value {
        let reads = |key: &str| key.split('/').any(|part| part == plural);
        let mut actors = self.system.snapshot().into_iter();
        actors
            .find(|actor| actor.kind == "informer.reflector" && reads(&actor.key))
            .map(|actor| actor.state)
            .unwrap_or_default()
    }

    /// Returns the statuses of all actors, as texts.
    pub(super) fn all(&self) -> Vec<String> {
        let show = |actor: oarlock_runtime::ActorStatus| {
            let error = actor.last_error.unwrap_or_default();
            format!("{} {}: {} {error}", actor.kind, actor.key, actor.state)
        };
        self.system.snapshot().into_iter().map(show).collect()
    }

    /// Returns how many of the member's writes arrived after it had given them up.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether the member is the arbiter.
    pub(super) fn decides(&self) -> bool {
        self.seen()["decides"] == true
    }

    /// Kills the member: it sends nothing more, but its sent messages arrive.
    pub(super) async fn kill(self, exchange: &Exchange) {
        assert_eq!(self.system.fatal(), None);
        self.life.cancel();
        exchange.cut(&self.identity);
        clock::sleep(BURIAL).await;
        shutdown(&self.system, Graces::all(BURIAL)).await;
    }

    /// Shuts the member down in order.
    pub(super) async fn end(self) {
        assert_eq!(self.system.fatal(), None);
        shutdown(&self.system, Graces::default()).await;
    }
}

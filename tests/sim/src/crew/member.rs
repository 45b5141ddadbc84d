//! A controller manager or scheduler process: its own actors, with real placement and real controllers or a real scheduler.

use std::sync::Arc;
use std::time::Duration;

use oarlock_bus::{Bus, Exchange, Identity};
use oarlock_client::Client;
use oarlock_controllers::CloudOptions;
use oarlock_placement::Options;
use oarlock_runtime::shutdown::{Graces, shutdown};
use oarlock_runtime::{Gate, System};
use oarlock_scheduler::{Config, Scheduler};

use super::cloud::FakeCloud;
use super::door::Door;
use crate::replicas::wire::{Marks, Wire};

/// Grace of the removal of a killed process's actors.
const BURIAL: Duration = Duration::from_millis(100);
/// Interval of the check for stuck actors.
const TICK: Duration = Duration::from_secs(2);
/// Controllers that are off: in these tests no kubelet reports the state of Nodes, and no rule concerns Services.
pub(super) const DISABLED: [&str; 5] = [
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "clusterrole-aggregation-controller",
];

#[derive(Clone, Debug)]
pub(super) enum Role {
    Controllers,
    Scheduler,
    /// A cloud controller manager of this cloud.
    Cloud(FakeCloud),
}

/// A controller manager or scheduler process with its own actors.
pub(super) struct Member {
    identity: Identity,
    door: Door,
    system: System,
}

impl Member {
    /// Starts a member whose messages go through `door`.
    pub(super) async fn start(role: Role, host: String, door: Door, exchange: Option<&Exchange>) -> Self {
        let options = oarlock_runtime::Options { host: host.as_str().into(), tick: TICK, watchdog: None };
        let system = System::start(options).await.unwrap();
        let door = Door { member: true, ..door };
        let client = Client::new(Arc::new(door.clone()));
        let (on_bus, units, outside) = match role {
            Role::Controllers => (oarlock_bus::Role::Controllers, oarlock_controllers::units(), Vec::new()),
            Role::Scheduler => (oarlock_bus::Role::Scheduler, oarlock_scheduler::units(), Vec::new()),
            Role::Cloud(_) => {
                (oarlock_bus::Role::Cloud, oarlock_controllers::cloud_units(), oarlock_controllers::cloud_units())
            }
        };
        let role_name = on_bus.as_str();
        let name = oarlock_mesh::member_name(role_name, &host);
        let identity = Identity::new(on_bus, &name).unwrap();
        let bus = exchange.map(|exchange| Bus::memory(exchange, identity.clone()));
        if let Some(bus) = &bus {
            oarlock_mesh::attend(&system, bus).await.unwrap();
        }
        let member = Options { role: role_name, units, outside, name, bus: bus.clone() };
        let placement = oarlock_placement::start(&system, client.clone(), member).await.unwrap();
        let each = client.clone();
        let clients = Arc::new(move |_: &str| each.clone());
        match role {
            Role::Controllers => {
                let selection = oarlock_controllers::Selection::without(&DISABLED.map(str::to_owned));
                let options =
                    oarlock_controllers::Options { selection, placement, ..oarlock_controllers::Options::default() };
                oarlock_controllers::start(&system, client, clients, options).await.unwrap();
            }
            Role::Cloud(cloud) => {
                let options = CloudOptions {
                    selection: oarlock_controllers::Selection::default(),
                    settings: oarlock_controllers::Settings::default(),
                    provider: Arc::new(cloud),
                    cluster: "sim".to_owned(),
                    placement,
                };
                oarlock_controllers::start_cloud(&system, client, clients, options).await.unwrap();
            }
            Role::Scheduler => {
                Scheduler::spawn(&system, client, Config { placement, bus, ..Config::default() }).await.unwrap();
            }
        }
        Self { identity, door, system }
    }

    /// Returns the member's identity on the bus.
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the member's name in Assignments.
    pub(super) fn name(&self) -> &str {
        self.identity.name()
    }

    /// Returns the wire to the server.
    pub(super) fn wire(&self) -> &Wire {
        &self.door.wire
    }

    /// Kills the member: it sends nothing more, but its sent messages arrive.
    pub(super) fn kill(self: Arc<Self>, net: &Gate, marks: &Marks) {
        self.sound();
        marks.note("killed", 1);
        self.door.life.cancel();
        net.spawn("burial", async move {
            shutdown(&self.system, Graces::all(BURIAL)).await;
        })
        .unwrap();
    }

    /// Shuts the member down in order.
    pub(super) async fn end(&self) {
        self.sound();
        shutdown(&self.system, Graces::default()).await;
    }

    /// Checks that no fault has made one of the member's actors fail.
    pub(super) fn sound(&self) {
        assert_eq!(self.system.fatal(), None);
    }
}

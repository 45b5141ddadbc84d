//! Runs the connections of the HTTPS client as gated tasks.

use std::future::Future;
use std::pin::Pin;

use oarlock_client::https::Spawn;
use oarlock_runtime::Gate;

/// Spawns connection tasks inside a gate (for instance of the phase `Informers`), so that connections are counted and end with the gate.
#[derive(Clone, Debug)]
pub struct GateSpawn(pub Gate);

impl Spawn for GateSpawn {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.attach("connection", task);
    }
}

//! The HTTPS client's connections as gated tasks.

use std::future::Future;
use std::pin::Pin;

use oarlock_client::https::Spawn;
use oarlock_runtime::Gate;

/// Runs connections inside a gate (of the phase `Informers`, say), so that they are counted and end with it.
#[derive(Clone, Debug)]
pub struct GateSpawn(pub Gate);

impl Spawn for GateSpawn {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.attach("connection", task);
    }
}

//! Tests of whole nodes in virtual time, over a fake API in memory.

use std::time::Duration;

use oarlock_runtime::{Options, System, Universe, clock};
use serde_json::{Value, json};

use crate::testing::{Api, pod, says};
use crate::{Fleet, KubeletHandle, NodeConfig};

mod fleet;
mod lifecycle;
mod statics;
mod trace;

/// A registered node `n1` and its API.
struct World {
    system: System,
    api: Api,
    fleet: Fleet,
    node: KubeletHandle,
}

impl World {
    async fn new() -> Self {
        let system = System::start(Options::default()).await.unwrap();
        let (api, fleet) = (Api::default(), Fleet::new(system.clone()));
        let node = fleet.add(api.client(), NodeConfig::simulated("n1", 0)).await.unwrap();
        Self { system, api, fleet, node }
    }

    fn pod(&self, name: &str) -> Option<Value> {
        self.api.get("pods", "default", name)
    }

    fn create(&self, name: &str, change: &Value) {
        self.api.create("pods", &pod(name, change));
    }

    /// Waits until the pod passes `test`; fails with its last state after `limit`.
    async fn until(&self, name: &str, limit: u64, test: impl Fn(&Value) -> bool) -> Value {
        let deadline = clock::after(Duration::from_secs(limit));
        loop {
            let pod = self.pod(name);
            if let Some(pod) = pod.as_ref().filter(|pod| test(pod)) {
                return pod.clone();
            }
            assert!(!deadline.passed(), "{name}: {:#}", pod.unwrap_or_default()["status"]);
            clock::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn gone(&self, name: &str, limit: u64) {
        let deadline = clock::after(Duration::from_secs(limit));
        while self.pod(name).is_some() {
            assert!(!deadline.passed(), "{name} is still there");
            clock::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn log(&self, query: &str) -> (u16, String) {
        let reply = self.node.get(&format!("/containerLogs/default/{query}")).await.unwrap();
        let code = reply.code;
        (code, String::from_utf8(reply.bytes(1 << 20).await.unwrap().to_vec()).unwrap())
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array();
    all.and_then(|all| all.iter().find(|one| one["type"] == kind)).unwrap_or(&Value::Null)
}

fn ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}

fn container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

fn phase(wanted: &'static str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["phase"] == wanted
}

/// Runs `test` under a few seeds, each twice.
fn sweep<F: Future<Output = ()>>(test: impl Fn() -> F) {
    Universe::sweep(0..3, test);
}

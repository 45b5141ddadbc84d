//! A client of the API that uses whichever server answers.

use std::time::Duration;

use oarlock_check::workloads::State;
use oarlock_testkit::http::{Answer, Http};
use oarlock_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::crew::{Units, assigned};

/// After this much silence of a server another is asked.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// Links to all servers; each call uses the first server that answers.
#[derive(Clone)]
pub(super) struct Api(Vec<Http>);

impl Api {
    pub(super) fn new(ways: impl IntoIterator<Item = Http>) -> Self {
        Self(ways.into_iter().map(|way| way.patience(CALL_TIMEOUT)).collect())
    }

    /// Returns the same clients in reverse order.
    fn turned(&self) -> Self {
        Self(self.0.iter().rev().cloned().collect())
    }

    /// Calls until the answer has one of these codes.
    #[track_caller]
    pub(super) fn surely(&self, method: &str, path: &str, body: Option<&Value>, done: &[u16]) -> Answer {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let headers: &[(&str, &str)] = if body.is_some() { &[("Content-Type", media)] } else { &[] };
        let body = body.map(Value::to_string).unwrap_or_default();
        eventually(&format!("{method} {path}"), || {
            let mut why = String::new();
            for way in &self.0 {
                match way.try_send(method, path, headers, body.as_bytes()) {
                    Ok(answer) if done.contains(&answer.code) => return Ok(answer),
                    Ok(answer) => why += &answer.to_string(),
                    Err(error) => why += &error.to_string(),
                }
            }
            Err(why)
        })
    }

    #[track_caller]
    pub(super) fn get(&self, path: &str) -> Value {
        self.surely("GET", path, None, &[200]).json()
    }

    /// Creates something, unless an earlier attempt already has.
    #[track_caller]
    pub(super) fn create(&self, path: &str, object: &Value) {
        self.surely("POST", path, Some(object), &[201, 409]);
    }

    /// Tries to create what a policy forbids, at the first server and at the last.
    ///
    /// # Panics
    /// When the write is not refused.
    #[track_caller]
    pub(super) fn refused(&self, path: &str, name: &str) {
        let object = json!({"metadata": {"name": name}});
        for api in [self, &self.turned()] {
            let answer = api.surely("POST", path, Some(&object), &[201, 409, 422]);
            assert_eq!(answer.code, 422, "{name}: {answer}");
        }
    }

    /// Checks that each server refuses the object, once the server knows the policy.
    #[track_caller]
    pub(super) fn refused_by_all(&self, path: &str, name: &str) {
        for way in &self.0 {
            Self(vec![way.clone()]).surely(
                "POST",
                path,
                Some(&json!({"metadata": {"name": format!("{name}x")}})),
                &[422],
            );
        }
    }

    /// Deletes something, unless an earlier attempt already has.
    #[track_caller]
    pub(super) fn delete(&self, path: &str, propagation: &str) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation});
        self.surely("DELETE", path, Some(&options), &[200, 202, 404]);
    }

    pub(super) fn units(&self) -> Units {
        assigned(&self.get("/apis/oarlock.dev/v1/assignments"))
    }

    /// The epoch of a unit, which grows when the unit moves.
    pub(super) fn epoch(&self, unit: &str) -> u64 {
        self.units()[unit].1
    }

    /// Returns the number of nodes that send no heartbeats, and of nodes with the taint for that.
    pub(super) fn lost_nodes(&self) -> [u64; 2] {
        let nodes = self.get("/api/v1/nodes");
        let any = |list: &Value, is: fn(&Value) -> bool| list.as_array().is_some_and(|all| all.iter().any(is));
        let lost = |one: &Value| one["type"] == "Ready" && one["status"] != "True";
        let tainted = |one: &Value| one["key"] == "node.kubernetes.io/unreachable";
        let items = || nodes["items"].as_array().unwrap().iter();
        let lost = items().filter(|node| any(&node["status"]["conditions"], lost)).count();
        let tainted = items().filter(|node| any(&node["spec"]["taints"], tainted)).count();
        [lost as u64, tainted as u64]
    }

    /// Pods with a node whose kubelet has not started them.
    pub(super) fn unbegun(&self) -> u64 {
        let pods = self.get("/api/v1/pods");
        let begun = |pod: &&Value| pod["spec"]["nodeName"].is_string() && pod["status"]["phase"] == "Pending";
        pods["items"].as_array().unwrap().iter().filter(begun).count() as u64
    }

    /// The names of all nodes, as a load balancer gets them.
    pub(super) fn nodes(&self) -> String {
        let nodes = self.get("/api/v1/nodes");
        let mut names: Vec<&str> =
            nodes["items"].as_array().unwrap().iter().filter_map(|node| node["metadata"]["name"].as_str()).collect();
        names.sort_unstable();
        names.join(",")
    }

    /// Everything that C1 is judged by.
    pub(super) fn state(&self) -> State {
        let list = |path: &str| self.get(path)["items"].as_array().cloned().unwrap_or_default();
        State {
            namespaces: list("/api/v1/namespaces"),
            deployments: list("/apis/apps/v1/deployments"),
            replica_sets: list("/apis/apps/v1/replicasets"),
            jobs: list("/apis/batch/v1/jobs"),
            pods: list("/api/v1/pods"),
            services: list("/api/v1/services"),
            endpoint_slices: list("/apis/discovery.k8s.io/v1/endpointslices"),
            endpoints: list("/api/v1/endpoints"),
        }
    }
}

//! Nodes, and pods with all kinds of constraints that are created and deleted.

use std::cell::Cell;
use std::ops::Range;

use oarlock_testkit::http::Http;
use oarlock_testkit::wait::gradually;
use serde_json::{Value, json};

pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
/// The constraints of pods, in turn; see [`pod`].
type Wishes = &'static [&'static str];
const URGENT: &str = "urgent";
/// Three in eight want more than room.
pub(super) const MANY: Wishes = &["port", "apart", "even", "plain", "plain", "plain", "plain", "plain"];

/// An API server, and the pods that were made there for a scheduler.
pub(super) struct Load {
    pub(super) http: Http,
    scheduler: &'static str,
    wishes: Wishes,
    made: usize,
    drawn: u64,
    /// Number of pods that were preempted.
    pub(super) left: Cell<usize>,
}

impl Load {
    pub(super) fn new(http: Http, scheduler: &'static str, wishes: Wishes) -> Self {
        Self { http, scheduler, wishes, made: 0, drawn: 1, left: Cell::new(0) }
    }

    pub(super) fn post(&self, path: &str, object: &Value) {
        let answer = self.http.json("POST", path, object);
        assert_eq!(answer.code, 201, "{}", answer.text());
    }

    fn patch(&self, path: &str, patch: &Value) {
        let headers = [("Content-Type", "application/merge-patch+json")];
        let answer = self.http.send("PATCH", path, &headers, patch.to_string().as_bytes());
        assert_eq!(answer.code, 200, "{}", answer.text());
    }

    /// An account and a class for pods.
    pub(super) fn prepare(&self) {
        let account = json!({"metadata": {"name": "default"}});
        self.post("/api/v1/namespaces/default/serviceaccounts", &account);
        self.post(CLASSES, &json!({"metadata": {"name": URGENT}, "value": 1000}));
    }

    /// Nodes of this size, which are ready.
    pub(super) fn nodes(&self, numbers: Range<usize>, cpu: &str) {
        for number in numbers {
            let name = format!("n{number}");
            let labels =
                json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("z{}", number % 3)});
            self.post("/api/v1/nodes", &json!({"metadata": {"name": name, "labels": labels}}));
            let sizes = json!({"cpu": cpu, "memory": "8Gi", "pods": "110"});
            self.patch(
                &format!("/api/v1/nodes/{name}/status"),
                &json!({"status": {"capacity": sizes, "allocatable": sizes}}),
            );
            // No kubelet reports that the node is ready.
            self.patch(&format!("/api/v1/nodes/{name}"), &json!({"spec": {"taints": []}}));
        }
    }

    pub(super) fn create(&mut self, count: usize) {
        for _ in 0..count {
            self.made += 1;
            let app = self.wishes[self.made % self.wishes.len()];
            self.post(PODS, &self.pod(app, None));
        }
    }

    pub(super) fn intrude(&mut self, count: usize, nodes: usize) {
        for _ in 0..count {
            self.made += 1;
            let node = format!("n{}", self.draw(nodes));
            self.post(PODS, &self.pod("intruder", Some(&node)));
        }
    }

    /// Pods for which others have to leave, where there is no room.
    pub(super) fn press(&mut self, count: usize) {
        for _ in 0..count {
            self.made += 1;
            self.post(PODS, &self.pod(URGENT, None));
        }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.drawn = self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.drawn >> 33).unwrap() % below
    }

    /// Names of pods, and whether they have a node. Those that are asked to leave do so, as their kubelets would see to.
    pub(super) fn pods(&self) -> Vec<(String, bool)> {
        let list = self.http.get(PODS).json();
        let mut pods = Vec::new();
        for pod in list["items"].as_array().unwrap() {
            let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
            match pod["metadata"]["deletionTimestamp"].is_string() {
                true => {
                    self.left.set(self.left.get() + 1);
                    self.delete(&name);
                }
                false => pods.push((name, pod["spec"]["nodeName"].is_string())),
            }
        }
        pods
    }

    pub(super) fn delete(&self, name: &str) {
        let answer = self.http.send("DELETE", &format!("{PODS}/{name}?gracePeriodSeconds=0"), &[], b"");
        assert_eq!(answer.code, 200, "{}", answer.text());
    }

    /// Deletes a fifth of the pods that have a node and creates as many.
    pub(super) fn churn(&mut self) {
        let bound = self.pods().into_iter().filter(|(_, bound)| *bound);
        let gone: Vec<String> = bound.map(|(name, _)| name).filter(|_| self.draw(5) == 0).collect();
        gone.iter().for_each(|name| self.delete(name));
        self.create(gone.len());
    }

    /// Waits until at most this many pods are without a node.
    pub(super) fn settled(&self, most: usize) {
        gradually("pods get nodes", || {
            let waiting: Vec<String> =
                self.pods().into_iter().filter(|(_, bound)| !bound).map(|(name, _)| name).collect();
            if waiting.len() <= most { Ok(()) } else { Err(format!("{} wait: {waiting:?}", waiting.len())) }
        });
    }

    /// Makes the next pod: half a core, and the constraint that `app` names.
    pub(super) fn pod(&self, app: &str, node: Option<&str>) -> Value {
        let selector = json!({"matchLabels": {"app": app}});
        let mut container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}});
        let mut spec = json!({"schedulerName": self.scheduler});
        match app {
            "port" => container["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]),
            "apart" => {
                let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
                let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
                spec["affinity"] = json!({"podAntiAffinity": terms});
            }
            "even" => {
                spec["topologySpreadConstraints"] = json!([{
                    "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": selector,
                }]);
            }
            URGENT => spec["priorityClassName"] = json!(URGENT),
            _ => {}
        }
        spec["containers"] = json!([container]);
        if let Some(node) = node {
            spec["nodeName"] = json!(node);
        }
        json!({"metadata": {"name": format!("{app}-{}-{}", self.scheduler, self.made), "labels": {"app": app}}, "spec": spec})
    }
}

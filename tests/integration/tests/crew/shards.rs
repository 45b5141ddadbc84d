//! Three schedulers that speak to each other over a real nats-server fill nodes, while pods come and go, others put pods onto nodes past them, and
//! whoever decides is killed again and again. The log judges: `oarlock-check`'s placement rules over every version of every node and pod.

use std::collections::BTreeMap;

use oarlock_check::placement::{Line, Log, Rules, judge};
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::nats::Nats;
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Process};
use serde_json::{Value, json};

use super::{API_ONLY, part};
use crate::faults::truth::EmbeddedStore;

const NODES: usize = 50;
/// Pods of half a core that a node of two cores takes.
const EACH: usize = 4;
/// How often the arbiter's holder is killed.
const KILLS: usize = 4;
/// For how many revisions others' work may be unknown to who decides: what some hundred milliseconds of this load write.
const LAG: u64 = 300;
const PODS: &str = "/api/v1/namespaces/default/pods";

struct Load {
    http: Http,
    made: usize,
    drawn: u64,
}

impl Load {
    fn post(&self, path: &str, object: &Value) {
        let answer = self.http.json("POST", path, object);
        assert_eq!(answer.code, 201, "{}", answer.text());
    }

    fn patch(&self, path: &str, patch: &Value) {
        let headers = [("Content-Type", "application/merge-patch+json")];
        let answer = self.http.send("PATCH", path, &headers, patch.to_string().as_bytes());
        assert_eq!(answer.code, 200, "{}", answer.text());
    }

    fn nodes(&self) {
        for number in 0..NODES {
            let name = format!("n{number}");
            let labels =
                json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("z{}", number % 3)});
            self.post("/api/v1/nodes", &json!({"metadata": {"name": name, "labels": labels}}));
            let sizes = json!({"cpu": "2", "memory": "8Gi", "pods": "110"});
            self.patch(
                &format!("/api/v1/nodes/{name}/status"),
                &json!({"status": {"capacity": sizes, "allocatable": sizes}}),
            );
            // Nobody here says that it is ready.
            self.patch(&format!("/api/v1/nodes/{name}"), &json!({"spec": {"taints": []}}));
        }
    }

    fn create(&mut self, count: usize) {
        for _ in 0..count {
            self.made += 1;
            let app = ["port", "apart", "even", "plain", "plain", "plain", "plain", "plain"][self.made % 8];
            self.post(PODS, &pod(self.made, app, None));
        }
    }

    fn intrude(&mut self, count: usize) {
        for _ in 0..count {
            self.made += 1;
            let node = format!("n{}", self.draw(NODES));
            self.post(PODS, &pod(self.made, "intruder", Some(&node)));
        }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.drawn = self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.drawn >> 33).unwrap() % below
    }

    /// Names of pods, and whether they have a node.
    fn pods(&self) -> Vec<(String, bool)> {
        let list = self.http.get(PODS).json();
        let each = list["items"].as_array().unwrap().iter();
        each.map(|pod| (pod["metadata"]["name"].as_str().unwrap().to_owned(), pod["spec"]["nodeName"].is_string()))
            .collect()
    }

    fn delete(&self, name: &str) {
        let answer = self.http.send("DELETE", &format!("{PODS}/{name}?gracePeriodSeconds=0"), &[], b"");
        assert_eq!(answer.code, 200, "{}", answer.text());
    }

    /// Deletes a fifth of the pods that have a node and creates as many.
    fn churn(&mut self) {
        let bound = self.pods().into_iter().filter(|(_, bound)| *bound);
        let gone: Vec<String> = bound.map(|(name, _)| name).filter(|_| self.draw(5) == 0).collect();
        gone.iter().for_each(|name| self.delete(name));
        self.create(gone.len());
    }

    /// Waits until so many pods at most have no node.
    fn settled(&self, most: usize) {
        eventually("pods have nodes", || {
            let waiting: Vec<String> =
                self.pods().into_iter().filter(|(_, bound)| !bound).map(|(name, _)| name).collect();
            if waiting.len() <= most { Ok(()) } else { Err(format!("{} wait: {waiting:?}", waiting.len())) }
        });
    }
}

fn pod(number: usize, app: &str, node: Option<&str>) -> Value {
    let selector = json!({"matchLabels": {"app": app}});
    let mut container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}});
    let mut spec = json!({});
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
        _ => {}
    }
    spec["containers"] = json!([container]);
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
    }
    json!({"metadata": {"name": format!("{app}-{number}"), "labels": {"app": app}}, "spec": spec})
}

/// Holders by unit.
fn holders(http: &Http) -> BTreeMap<String, String> {
    let list = http.get("/apis/oarlock.dev/v1/assignments").json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let each = list["items"].as_array().unwrap().iter();
    each.map(|unit| (text(&unit["metadata"]["name"]), text(&unit["spec"]["holderIdentity"]))).collect()
}

/// Which of them holds the arbiter's unit: members say in their logs as whom they have joined the bus.
fn arbiter(http: &Http, schedulers: &[Process]) -> Option<usize> {
    let name = format!("member=scheduler/{} ", holders(http).get("arbiter")?);
    schedulers.iter().position(|process| process.said().contains(&name))
}

fn log(cluster: &Cluster) -> Log {
    let mut lines = Vec::new();
    EmbeddedStore(cluster.data_dir().store()).records(|record| {
        let key = record.key.as_str().trim_start_matches("/registry/");
        let key = key.strip_prefix("minions/").map_or_else(|| key.to_owned(), |name| format!("nodes/{name}"));
        if key.starts_with("pods/") || key.starts_with("nodes/") {
            let object = record.value.as_deref().map(|value| serde_json::from_slice(value).unwrap());
            lines.push(Line { revision: record.revision.get(), key, object });
        }
    });
    Log::of(lines)
}

#[test]
fn shards_fill_the_nodes_while_whoever_decides_is_killed() {
    let nats = match Nats::start("") {
        Ok(nats) => nats,
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            return;
        }
    };
    let mut cluster = Cluster::up(&API_ONLY);
    let mut load = Load { http: cluster.http(Who::Admin), made: 0, drawn: 1 };
    load.post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}}));
    load.nodes();
    let url = nats.url();
    let flags = ["--nats-servers", &url, "--log", "info,oarlock_scheduler=debug"];
    let start = || part(&cluster, "scheduler", &flags);
    let mut schedulers = vec![start(), start(), start()];
    eventually("shards are spread", || {
        let mut loads: BTreeMap<String, usize> = BTreeMap::new();
        for (unit, holder) in holders(&load.http) {
            *loads.entry(holder).or_default() += usize::from(unit.starts_with("shards-"));
        }
        // 17 units, and the arbiter's is one of them.
        let even = loads.len() == 3 && loads.values().all(|load| (4..=6).contains(load));
        if even { Ok(()) } else { Err(format!("{loads:?}")) }
    });
    load.create(NODES * EACH);
    // Those with wishes may find no node once all are full.
    load.settled(NODES);
    for round in 0..KILLS {
        load.churn();
        load.intrude(2);
        let victim = eventually("somebody decides", || arbiter(&load.http, &schedulers).ok_or("nobody"));
        schedulers[victim].kill();
        load.churn();
        schedulers.push(start());
        eventually("somebody else decides", || match arbiter(&load.http, &schedulers) {
            Some(other) if other != victim => Ok(()),
            other => Err(format!("{other:?}")),
        });
        load.settled(NODES + 10 * round);
    }
    // Room for everybody, whatever they want.
    for (at, (name, _)) in load.pods().into_iter().enumerate() {
        if name.starts_with("intruder") || (name.starts_with("plain") && at % 2 == 0) {
            load.delete(&name);
        }
    }
    load.settled(0);
    let said: String = schedulers.iter().map(Process::said).collect();
    drop(schedulers);
    assert_eq!(cluster.stop(), Some(0));
    let findings = judge(&log(&cluster), &Rules { lag: LAG, ..Rules::default() });
    let refusals = said.matches("proposal refused").count();
    let full = findings.fullest.values().filter(|fullest| **fullest >= 100).count();
    println!("{}refusals {refusals}, full nodes {full}", findings.show(10));
    assert!(findings.broken.is_empty(), "{}", findings.show(10));
    assert!(refusals > 0, "void: no proposal was refused");
    assert!(full * 10 >= NODES * 9, "void: only {full} nodes were ever full");
    assert!(!said.contains(" ERROR "), "{said}");
}

//! Two API servers over one etcd act as one API.

use std::collections::BTreeSet;
use std::thread;

use oarlock_testkit::http::{Answer, Http, Who};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Etcd};
use serde_json::{Value, json};

const API_ONLY: [&str; 2] = ["--disable", "scheduler,controller-manager,kubelet"];
/// Writers at each server.
const WRITERS: usize = 4;

/// An etcd and two servers over it.
struct Pair {
    one: Cluster,
    two: Cluster,
    _etcd: Etcd,
}

impl Pair {
    /// `None`, and a loud word, where etcd cannot be built. Listed in docs/operations/tests.md.
    fn start() -> Option<Self> {
        let etcd = Etcd::start(1).map_err(|why| oarlock_testkit::skipped!("{why}: replicas were not tried")).ok()?;
        let servers = etcd.endpoints().join(",");
        let one = Cluster::up(&[["--etcd-servers", &servers].as_slice(), &API_ONLY].concat());
        let two = one.replica(&["--etcd-servers", &servers]);
        Some(Self { one, two, _etcd: etcd })
    }

    fn http(&self) -> [Http; 2] {
        [self.one.http(Who::Admin), self.two.http(Who::Admin)]
    }

    /// Makes `count` objects through each server at the same time, and returns the answers.
    fn through_both(&self, count: usize, path: &str, object: impl Fn(String) -> Value + Sync) -> Vec<Answer> {
        let (servers, object) = (&self.http(), &object);
        thread::scope(|scope| {
            let writers = (0..2 * WRITERS).map(|writer| {
                scope.spawn(move || {
                    let http = &servers[writer % 2];
                    let mine = (writer / 2..count).step_by(WRITERS);
                    mine.map(|n| http.json("POST", path, &object(format!("s{}-{n}", writer % 2)))).collect::<Vec<_>>()
                })
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        })
    }
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[test]
fn what_one_acknowledged_the_other_has() {
    let Some(pair) = Pair::start() else { return };
    let [one, two] = pair.http();
    let path = "/api/v1/namespaces/default/configmaps";
    for n in 0..50 {
        let made = one.json("POST", path, &json!({"metadata": {"name": format!("c{n}")}, "data": {"n": "0"}}));
        assert_eq!(made.code, 201, "{made}");
        let own = format!("{path}/c{n}");
        let mut seen = two.get(&own).json();
        assert_eq!(version(&seen), version(&made.json()), "read at once through the other");
        seen["data"]["n"] = json!("1");
        let changed = two.json("PUT", &own, &seen);
        assert_eq!(changed.code, 200, "{changed}");
        // The object that the first server's client holds is stale, however soon its update follows.
        let stale = one.json("PUT", &own, &made.json());
        assert_eq!((stale.code, stale.json()["reason"].as_str()), (409, Some("Conflict")), "{stale}");
        assert_eq!(one.get(&own).json()["data"]["n"], "1");
        if n % 2 == 0 {
            assert_eq!(one.send("DELETE", &own, &[], b"").code, 200);
            assert_eq!(two.get(&own).code, 404);
            let again = two.json("POST", path, &json!({"metadata": {"name": format!("c{n}")}}));
            assert_eq!(again.code, 201, "{again}");
        }
    }
    let (mine, yours) = (one.get(path).json(), two.get(path).json());
    assert_eq!(mine["items"], yours["items"], "both list the same in the same order");
    // Both servers are endpoints of the one Service; a server that shuts down in order removes its endpoint.
    let ports = |http: &Http| -> BTreeSet<u64> {
        let endpoints = http.get("/api/v1/namespaces/default/endpoints/kubernetes").json();
        let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
        subsets.iter().map(|subset| subset["ports"][0]["port"].as_u64().unwrap()).collect()
    };
    eventually("both servers are endpoints", || if ports(&one).len() == 2 { Ok(()) } else { Err("not yet") });
    for cluster in [&pair.one, &pair.two] {
        let log = cluster.log_tail();
        assert!(!log.contains("lost the log's tail"), "{log}");
    }
    let Pair { one: mut first, two: second, _etcd } = pair;
    let port: u64 = first.http(Who::Admin).address().rsplit(':').next().unwrap().parse().unwrap();
    assert_eq!(first.stop(), Some(0), "{}", first.log_tail());
    assert!(!ports(&second.http(Who::Admin)).contains(&port), "{port} is still an endpoint");
}

#[test]
fn addresses_and_ports_are_given_once() {
    let Some(pair) = Pair::start() else { return };
    let answers = pair.through_both(
        500,
        "/api/v1/namespaces/default/services",
        |name| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}),
    );
    let addresses: BTreeSet<String> = answers
        .iter()
        .map(|answer| {
            assert_eq!(answer.code, 201, "{answer}");
            answer.json()["spec"]["clusterIP"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(addresses.len(), 1000);
    let answers = pair.through_both(
        50,
        "/api/v1/namespaces/default/services",
        |name| json!({"metadata": {"name": format!("n{name}")}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}),
    );
    let ports: BTreeSet<u64> = answers
        .iter()
        .map(|answer| {
            assert_eq!(answer.code, 201, "{answer}");
            answer.json()["spec"]["ports"][0]["nodePort"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(ports.len(), 100);
}

#[test]
fn a_quota_is_never_exceeded() {
    let Some(pair) = Pair::start() else { return };
    let [one, two] = pair.http();
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let hard = json!({"pods": "300"});
    let made = one.json("POST", quotas, &json!({"metadata": {"name": "small"}, "spec": {"hard": hard}}));
    assert_eq!(made.code, 201, "{made}");
    // A quota applies once its status holds the limits, which a controller writes.
    let mut quota = made.json();
    quota["status"] = json!({"hard": hard, "used": {"pods": "0"}});
    assert_eq!(one.json("PUT", &format!("{quotas}/small/status"), &quota).code, 200);
    let account = json!({"metadata": {"name": "default"}});
    let accounts = one.json("POST", "/api/v1/namespaces/default/serviceaccounts", &account);
    assert!([201, 409].contains(&accounts.code), "{accounts}");
    let answers = pair.through_both(
        500,
        "/api/v1/namespaces/default/pods",
        |name| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    );
    let taken = answers.iter().filter(|answer| answer.code == 201).count();
    let refused = answers.iter().filter(|answer| answer.code == 403).count();
    let other = answers.iter().find(|answer| ![201, 403].contains(&answer.code));
    assert_eq!((taken, refused), (300, 700), "{other:?}");
    for http in [&one, &two] {
        let pods = http.get("/api/v1/namespaces/default/pods").json();
        assert_eq!(pods["items"].as_array().unwrap().len(), 300);
        assert_eq!(http.get(&format!("{quotas}/small")).json()["status"]["used"]["pods"], "300");
    }
}

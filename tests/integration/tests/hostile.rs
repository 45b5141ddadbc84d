//! One user against all others: large requests, requests whose bodies never arrive, too many connections, proxies to addresses of the server's own
//! network.

mod answers;
mod floods;
mod unread;
mod work;

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use oarlock_runtime::clock;
use oarlock_testkit::Cluster;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::STEP_TIMEOUT;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
/// More than there are seats.
const BODIES: usize = 8;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A body of many ports, well above what counts as large.
fn large_pod() -> Value {
    let ports: Vec<Value> =
        (0..9_000).map(|n| json!({"containerPort": n % 60_000 + 1, "name": format!("p{n}")})).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": ports}]},
    })
}

/// Returns a client that has every permission and is not in `system:masters`, so that the limits apply to it.
fn somebody(cluster: &Cluster) -> Http {
    let admin = cluster.http(Who::Admin);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    for name in ["default", "somebody"] {
        let made = admin.json("POST", accounts, &json!({"metadata": {"name": name}}));
        assert!([201, 409].contains(&made.code), "{made}");
    }
    let binding = json!({
        "metadata": {"name": "somebody"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "somebody", "namespace": "default"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(admin.json("POST", bindings, &binding).code, 201);
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = admin.json("POST", &format!("{accounts}/somebody/token"), &asked).json();
    cluster.http(Who::Token(token["status"]["token"].as_str().unwrap().to_owned()))
}

#[test]
fn large_requests_of_one_user_leave_the_server_to_the_others() {
    let mut cluster = Cluster::api_only();
    let (admin, somebody) = (cluster.http(Who::Admin), somebody(&cluster));
    let (body, done) = (large_pod().to_string(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let large: Vec<_> = (0..16)
            .map(|_| {
                let (somebody, body) = (somebody.clone(), &body);
                let send = move || {
                    let path = format!("{PODS}?dryRun=All");
                    somebody.send("POST", &path, &[("Content-Type", "application/json")], body.as_bytes()).code
                };
                scope.spawn(send)
            })
            .collect();
        let others = scope.spawn(|| {
            let mut answered = 0;
            while !done.load(Ordering::Relaxed) || answered == 0 {
                assert_eq!(admin.get("/readyz").text(), "ok");
                assert_eq!(admin.get("/api/v1/namespaces/default").code, 200);
                answered += 1;
            }
        });
        let codes: Vec<u16> = large.into_iter().map(|thread| thread.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        others.join().unwrap();
        // Each request gets an answer, if only 429 or 504; no connection breaks.
        assert!(codes.iter().all(|code| [201, 400, 422, 429, 504].contains(code)), "{codes:?}");
        assert!(codes.iter().any(|code| [201, 422].contains(code)), "at least one gets its turn: {codes:?}");
    });
    assert!(cluster.runs(), "{}", cluster.log_tail());
    assert!(!cluster.said_in_log().contains("aborting"), "{}", cluster.log_tail());
}

#[test]
fn requests_beyond_the_limit_are_told_to_come_back_and_the_system_gets_its_answers() {
    let flags =
        ["--ephemeral", "--max-mutating-requests-inflight", "4", "--disable", "scheduler,controller-manager,kubelet"];
    let mut cluster = Cluster::up(&flags);
    let (admin, somebody) = (cluster.http(Who::Admin), somebody(&cluster));
    let token = admin.json(
        "POST",
        "/api/v1/namespaces/default/serviceaccounts/somebody/token",
        &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
    );
    let token = token.json()["status"]["token"].as_str().unwrap().to_owned();
    std::thread::scope(|scope| {
        let map = |name: &str| json!({"metadata": {"name": name}});
        // Requests whose bodies never arrive use memory and no seat; ordinary users may use three quarters of the memory.
        for _ in 0..BODIES {
            let head = format!(
                "POST {MAPS} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
                somebody.address()
            );
            let somebody = somebody.clone();
            scope.spawn(move || drop(somebody.raw(head.as_bytes(), b"{")));
        }
        let deadline = clock::after(STEP_TIMEOUT);
        let waiting = format!("oarlock_apiserver_request_bodies_bytes {}\n", BODIES * (16 << 10));
        while !admin.get("/metrics").text().contains(&waiting) {
            assert!(!deadline.passed(), "bodies never counted: {}", admin.get("/metrics").text());
        }
        assert_eq!(somebody.json("POST", MAPS, &map("beside-them")).code, 201);
        // Large requests hold their seats while they run and while they wait for a worker.
        let (body, stop) = (large_pod().to_string(), AtomicBool::new(false));
        let (body, stop) = (&body, &stop);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let somebody = somebody.clone();
                scope.spawn(move || {
                    let path = format!("{PODS}?dryRun=All");
                    while !stop.load(Ordering::Relaxed) {
                        let json = [("Content-Type", "application/json")];
                        let code = somebody.send("POST", &path, &json, body.as_bytes()).code;
                        assert!([201, 400, 422, 429, 504].contains(&code), "{code}");
                    }
                });
            }
            let refused = loop {
                let answer = somebody.json("POST", &format!("{MAPS}?dryRun=All"), &map("one-too-many"));
                if answer.code == 429 || deadline.passed() {
                    break answer;
                }
            };
            stop.store(true, Ordering::Relaxed);
            assert_eq!((refused.code, refused.header("retry-after")), (429, Some("1")), "{refused}");
            assert_eq!(refused.text(), "Too many requests, please try again later.\n");
        });
        assert_eq!(somebody.get(MAPS).code, 200, "reading is counted apart");
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "beat"},
            "spec": {"holderIdentity": "me"},
        });
        let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        assert_eq!(somebody.json("POST", leases, &lease).code, 201, "Leases go on");
        assert_eq!(admin.json("POST", MAPS, &map("by-the-masters")).code, 201);
        assert_eq!(somebody.get("/readyz").text(), "ok");
        cluster.kill();
    });
}

#[test]
fn connections_beyond_the_limit_are_closed_and_there_is_room_again_when_others_go() {
    let flags = ["--ephemeral", "--max-connections", "3", "--disable", "scheduler,controller-manager,kubelet"];
    let cluster = Cluster::up(&flags);
    let http = cluster.http(Who::Admin);
    let idle: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(http.address()).unwrap()).collect();
    assert!(http.try_get("/readyz").is_err(), "there are three already");
    drop(idle);
    let deadline = clock::after(STEP_TIMEOUT);
    while !http.try_get("/readyz").is_ok_and(|answer| answer.text() == "ok") {
        assert!(!deadline.passed(), "there is no room again: {}", cluster.log_tail());
    }
}

#[test]
fn proxies_judge_what_an_address_leads_to() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let node = json!({"metadata": {"name": "n"}});
    assert_eq!(http.json("POST", "/api/v1/nodes", &node).code, 201);
    let status = |address: Value| {
        let patch =
            json!({"status": {"addresses": [address], "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}});
        let merge = [("Content-Type", "application/merge-patch+json")];
        http.send("PATCH", "/api/v1/nodes/n/status", &merge, patch.to_string().as_bytes())
    };
    let secure = http.address().rsplit_once(':').unwrap().1.to_owned();
    for (kind, address) in [
        ("Hostname", "localhost"),
        ("InternalIP", "::ffff:127.0.0.1"),
        ("InternalIP", "127.0.0.1"),
        ("Hostname", "127.1"),
    ] {
        let said = status(json!({"type": kind, "address": address}));
        // A refused status has no further effect.
        if said.code != 200 {
            assert_eq!(said.code, 422, "{said}");
            continue;
        }
        for name in [format!("https:n:{secure}"), "n".to_owned()] {
            let answer = http.get(&format!("/api/v1/nodes/{name}/proxy/healthz"));
            assert_eq!(answer.code, 400, "{kind} {address}: {answer}");
            assert_eq!(answer.json()["message"], "address not allowed", "{kind} {address}");
        }
    }
    let pod = json!({
        "metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    let account = json!({"metadata": {"name": "default"}});
    assert!([201, 409].contains(&http.json("POST", "/api/v1/namespaces/default/serviceaccounts", &account).code));
    assert_eq!(http.json("POST", PODS, &pod).code, 201);
    for address in ["::ffff:127.0.0.1", "127.0.0.1", "::1"] {
        let patch = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}}).to_string();
        let merge = [("Content-Type", "application/merge-patch+json")];
        let said = http.send("PATCH", &format!("{PODS}/p/status"), &merge, patch.as_bytes());
        assert!([200, 422].contains(&said.code), "{said}");
        let answer = http.get(&format!("{PODS}/https:p:{secure}/proxy/healthz"));
        assert_eq!(
            (answer.code, &answer.json()["message"]),
            (400, &json!("address not allowed")),
            "{address}: {answer}"
        );
    }
    // A Service leads to addresses of its pods only, and Endpoints may not name an address of the server's own network.
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    assert_eq!(http.json("POST", "/api/v1/namespaces/default/services", &service).code, 201);
    for (address, stored, refused) in [("::ffff:127.0.0.1", 422, 404), ("127.0.0.1", 422, 404), ("192.0.2.9", 201, 503)]
    {
        let pod = json!({"kind": "Pod", "name": "p", "namespace": "default"});
        let subset = json!({"addresses": [{"ip": address, "targetRef": pod}], "ports": [{"port": secure.parse::<u16>().unwrap()}]});
        let endpoints = json!({"metadata": {"name": "s"}, "subsets": [subset]});
        let said = http.json("POST", "/api/v1/namespaces/default/endpoints", &endpoints);
        assert_eq!(said.code, stored, "{address}: {said}");
        let answer = http.get("/api/v1/namespaces/default/services/https:s:80/proxy/healthz");
        assert_eq!(answer.code, refused, "{address}: {answer}");
    }
}

//! Large requests over HTTPS: they run in separate lanes with ordinary answers, and a request whose body never arrives gets 504 at the deadline.

use std::net::{IpAddr, Ipv4Addr};

use oarlock_config::Kubeconfig;
use oarlock_runtime::{System, clock};
use oarlock_service_apiserver::assemble::{Api, Cluster, Store, start};
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::STEP_TIMEOUT;
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn server() -> (tempfile::TempDir, Api, Http) {
    let directory = tempfile::tempdir().unwrap();
    let system = System::start(oarlock_runtime::Options::default()).await.unwrap();
    let cluster = Cluster {
        advertise_address: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
        ..Cluster::new(directory.path().to_owned(), Store::Memory)
    };
    let api = start(&system, cluster).await.unwrap();
    oarlock_apiserver::start::ready(&api.server, clock::after(STEP_TIMEOUT)).await.unwrap();
    let endpoint = Kubeconfig::read(&api.kubeconfig).unwrap().resolve(None).unwrap();
    (directory, api, Http::new(&endpoint, Who::Admin))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_are_answered_like_others() {
    let (_directory, _api, http) = server().await;
    let test = move || {
        let map = |name: &str, data: serde_json::Value| json!({"metadata": {"name": name}, "data": data});
        // Large because of the number of bytes, and of the number of values.
        let long = map("long", json!({"a": "x".repeat(900_000)}));
        let created = http.json("POST", MAPS, &long);
        assert_eq!(created.code, 201, "{}", created.code);
        let many: serde_json::Map<_, _> = (0..20_000).map(|n| (format!("k{n}"), json!("v"))).collect();
        let created = http.json("POST", MAPS, &map("many", many.into()));
        assert_eq!((created.code, &created.json()["data"]["k19999"]), (201, &json!("v")));
        assert_eq!(http.json("POST", MAPS, &long).code, 409, "what is refused is refused as ever");
        // Large because of the stored object that the request changes.
        let merge = [("Content-Type", "application/merge-patch+json")];
        let patched = http.send("PATCH", &format!("{MAPS}/long"), &merge, br#"{"data":{"b":"y"}}"#);
        assert_eq!((patched.code, &patched.json()["data"]["b"]), (200, &json!("y")));
        let wrong = http.send("PATCH", &format!("{MAPS}/long"), &merge, br#"{"data":{"-/":"y"}}"#);
        assert_eq!(wrong.code, 422, "{}", wrong.code);
        // Large because of the objects that must be decoded for the answer.
        let yaml = http.send("GET", MAPS, &[("Accept", "application/yaml")], b"");
        assert!(yaml.code == 200 && yaml.body.len() > 1 << 20, "{}: {}", yaml.code, yaml.body.len());
        assert_eq!(http.send("DELETE", &format!("{MAPS}/long"), &[], b"").code, 200);
        assert_eq!(http.get("/readyz").text(), "ok");
    };
    tokio::task::spawn_blocking(test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_come_is_waited_for_until_the_deadline() {
    let (_directory, _api, http) = server().await;
    let test = move || {
        let head = format!(
            "POST {MAPS}?timeout=1s HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
            http.address()
        );
        let answer = http.raw(head.as_bytes(), b"{").unwrap();
        assert_eq!(answer.code, 504);
    };
    tokio::task::spawn_blocking(test).await.unwrap();
}

//! The shutdown of one server: its announcement, and the treatment of late requests.

use std::process::Command;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use oarlock_client::https::TokioSpawn;
use oarlock_client::{Client, Endpoint, Https};
use oarlock_config::Kubeconfig;
use oarlock_schema::resource;
use oarlock_testkit::Cluster;
use oarlock_testkit::chaos::Chaos;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::eventually;

use super::{logged, servers};
use crate::balancer::address_of;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Long enough to see all of it on a machine that is slow and busy.
const DELAY: &str = "10s";

fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(work).unwrap()
}

fn endpoints(http: &Http) -> Vec<u64> {
    let endpoints = http.get("/api/v1/namespaces/default/endpoints/kubernetes").json();
    let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
    subsets.iter().map(|subset| subset["ports"][0]["port"].as_u64().unwrap()).collect()
}

#[test]
fn a_server_says_that_it_goes_and_serves_on_for_the_delay() {
    let Some((mut servers, _etcd)) = servers(2, &["--shutdown-delay-duration", DELAY]) else { return };
    let (mut two, one) = (servers.pop().unwrap(), servers.pop().unwrap());
    let (there, here) = (one.http(Who::Admin), two.http(Who::Admin));
    let port = u64::from(address_of(&two).port());
    eventually("both are endpoints", || if endpoints(&there).len() == 2 { Ok(()) } else { Err("not yet") });
    let mut watch = here.open("GET", &format!("{MAPS}?watch=1&allowWatchBookmarks=true"), &[], b"").unwrap();
    let ending = beside(move || (two.stop(), two));
    // The requests use new connections while the server is not ready: an answered request was served by the server that is shutting down.
    eventually("it says that it is not ready", || match here.get("/readyz") {
        answer if answer.code == 500 && answer.text().contains("[-]shutdown failed") => Ok(()),
        answer => Err(answer),
    });
    eventually("it is no endpoint any more", || {
        let ports = endpoints(&there);
        if ports.contains(&port) { Err(format!("{ports:?}")) } else { Ok(()) }
    });
    assert_eq!(here.get("/readyz").code, 500);
    let made = here.json("POST", MAPS, &serde_json::json!({"metadata": {"name": "late"}}));
    assert_eq!(made.code, 201, "{made}");
    assert_eq!(here.get("/livez").code, 200, "it is well, and goes");
    // The server's watches deliver the last events and end in order.
    while let Some(event) = watch.event() {
        if event["object"]["metadata"]["name"] == "late" {
            assert!(watch.event().is_none_or(|last| last["type"] == "BOOKMARK"));
            break;
        }
    }
    let (code, two) = ending.join().unwrap();
    assert_eq!(code, Some(0), "{}", two.log_tail());
    assert_eq!(here.try_get("/readyz").unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn who_comes_late_is_told_to_come_back() {
    let flags = ["--shutdown-send-retry-after", "--shutdown-watch-termination-grace-period", "3s"];
    let Some((mut servers, _etcd)) = servers(1, &flags) else { return };
    let mut server = servers.pop().unwrap();
    let http = server.http(Who::Admin);
    // 600 watches end within three seconds, spread over that time.
    let watch = || http.open("GET", &format!("{MAPS}?watch=1"), &[], b"").unwrap();
    let watches: Vec<_> = (0..600).map(|_| watch()).collect();
    let ending = beside(move || (server.stop(), server));
    let late = eventually("it refuses", || match http.try_get(MAPS) {
        Ok(answer) if answer.code == 429 => Ok(answer),
        Ok(answer) => Err(answer.to_string()),
        Err(error) => panic!("{error}"),
    });
    assert_eq!((late.header("retry-after"), late.header("connection")), (Some("5"), Some("close")), "{late}");
    assert_eq!(late.text(), "The apiserver is shutting down, please try again later.\n");
    assert_eq!((http.get("/readyz").code, http.get("/livez").code), (500, 200), "who looks at it is answered");
    for watch in watches {
        watch.finish().unwrap();
    }
    let (code, server) = ending.join().unwrap();
    assert_eq!(code, Some(0), "{}", server.log_tail());
    assert_eq!(logged(&server.said_in_log(), "closed", "watches"), [600]);
}

#[test]
fn connections_are_closed_by_chance_and_nobody_notices() {
    for (chance, moves) in [("0", false), ("0.02", true)] {
        let cluster = Cluster::up(&[
            "--ephemeral",
            "--disable",
            "scheduler,controller-manager,kubelet",
            "--goaway-chance",
            chance,
        ]);
        let chaos = Chaos::new();
        let link = chaos.link("client", "server", address_of(&cluster));
        let at = [format!("https://{}", link.address())];
        let admin = Kubeconfig::read(&cluster.kubeconfig()).unwrap().resolve(None).unwrap().at(&at).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoint = Endpoint::new(&admin, "test/1").unwrap();
            let client = Client::new(Arc::new(Https::new(endpoint, Arc::new(TokioSpawn)).unwrap()));
            for _ in 0..1000 {
                client.get(resource("", "v1", "namespaces").unwrap(), "", "default").await.unwrap();
            }
        });
        // With correct code, 1,000 requests without a GOAWAY happen once in 600 million runs.
        assert_eq!(link.marks().connections > 1, moves, "{chance}: {:?}", link.marks());
    }
}

#[test]
fn flags_about_the_end_are_checked() {
    for flag in
        ["--goaway-chance=0.03", "--goaway-chance=-1", "--shutdown-delay-duration=5", "--shutdown-delay-duration=-1s"]
    {
        let ran = Command::new(oarlock_testkit::oarlock()).args(["apiserver", flag]).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        let name = flag.split('=').next().unwrap();
        assert_eq!(ran.status.code(), Some(2), "{flag}: {said}");
        assert!(said.contains(name), "{flag}: {said}");
    }
}

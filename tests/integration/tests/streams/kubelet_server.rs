//! The kubelet's HTTPS server: authentication, authorization and answers; kubelets in processes of their own.

use std::sync::Arc;
use std::time::Duration;

use oarlock_client::https::{Auth, TokioSpawn};
use oarlock_client::{Client, Endpoint, Https, RawRequest};
use oarlock_pki::{Authority, Leaf, Subject, UnixTime, tls};
use oarlock_runtime::clock;
use oarlock_testkit::Cluster;
use oarlock_testkit::wait::STEP_TIMEOUT;
use serde_json::{Value, json};

use super::Streams;

fn client(port: u16, auth: Auth, identity: Option<&oarlock_pki::Issued>) -> Client {
    let identity = identity.map(|issued| (vec![issued.certificate.clone()], issued.key.to_rustls()));
    let endpoint = Endpoint {
        servers: vec![format!("https://127.0.0.1:{port}")],
        tls: Arc::new(tls::client_config(tls::ServerTrust::Anybody, identity).unwrap()),
        server_name: None,
        auth,
        impersonate: None,
        user_agent: "test".to_owned(),
    };
    Client::new(Arc::new(Https::new(endpoint, Arc::new(TokioSpawn)).unwrap()))
}

async fn get(client: &Client, path: &str) -> (u16, String) {
    let reply = client.raw(RawRequest::get(path, STEP_TIMEOUT)).await.unwrap();
    let code = reply.code;
    (code, String::from_utf8(reply.bytes(1 << 20).await.unwrap().into()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_comes_in_unknown_or_unasked() {
    let streams = Streams::start().await;
    let nobody = client(streams.port, Auth::None, None);
    for path in ["/healthz", "/pods", "/containerLogs/default/web/main", "/nothing"] {
        assert_eq!(get(&nobody, path).await, (401, "Unauthorized".to_owned()), "{path}");
    }
    let liar = client(streams.port, Auth::Token("no.such.token".to_owned()), None);
    assert_eq!(get(&liar, "/healthz").await.0, 401);
    let now = u64::try_from(clock::wall().as_second()).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    let foreign = Authority::create("another", now).unwrap();
    let foreign = foreign.issue(&Leaf::client(Subject::user("admin", ["system:masters"])), now).unwrap();
    assert_eq!(get(&client(streams.port, Auth::None, Some(&foreign)), "/pods").await.0, 401);

    let token = streams.kubectl(|kubectl| kubectl.ok("create token default").trim().to_owned()).await;
    let account = client(streams.port, Auth::Token(token), None);
    let (code, text) = get(&account, "/pods").await;
    let wanted = "Forbidden (user=system:serviceaccount:default:default, verb=get, resource=nodes, subresource(s)=[pods proxy])\n";
    assert_eq!((code, text.as_str()), (403, wanted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rights_are_as_fine_as_upstreams() {
    let streams = Streams::start().await;
    let token = streams
        .kubectl(|kubectl| {
            kubectl.ok("create serviceaccount monitor");
            kubectl.ok("create clusterrole monitor --verb=get --resource=nodes/healthz,nodes/pods,nodes/stats");
            kubectl.ok("create clusterrolebinding monitor --clusterrole=monitor --serviceaccount=default:monitor");
            kubectl.ok("create token monitor").trim().to_owned()
        })
        .await;
    let monitor = client(streams.port, Auth::Token(token), None);
    assert_eq!(get(&monitor, "/healthz").await, (200, "ok".to_owned()));
    let (code, pods) = get(&monitor, "/pods").await;
    let pods: Value = serde_json::from_str(&pods).unwrap();
    assert_eq!((code, &pods["items"][0]["metadata"]["name"]), (200, &json!("web")));
    let (code, running) = get(&monitor, "/runningpods/").await;
    let running: Value = serde_json::from_str(&running).unwrap();
    assert_eq!((code, &running["items"][0]["spec"]["containers"][0]["name"]), (200, &json!("main")));
    let (_, summary) = get(&monitor, "/stats/summary").await;
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["node"]["nodeName"], "n1");
    assert_eq!(summary["pods"][0]["podRef"]["name"], "web");
    for path in ["/metrics", "/exec/default/web/main?output=1&command=id", "/containerLogs/default/web/main"] {
        assert_eq!(get(&monitor, path).await.0, 403, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn kubelets_of_other_processes_give_their_logs() {
    let test = || {
        let cluster = Cluster::up(&["--disable", "kubelet"]);
        let data = cluster.data_dir();
        let kubeconfig = data.component_kubeconfig("kubelet");
        let mut kubelets = Vec::new();
        // One process with two nodes, and one process with one node.
        for flags in [&["--count", "2", "--name-prefix", "many-"][..], &["--node-name", "one"]] {
            let common = ["kubelet", "--address", "127.0.0.1", "--port", "0", "--kubeconfig"];
            let mut command = std::process::Command::new(oarlock_testkit::oarlock());
            command.args(common).arg(&kubeconfig).arg("--data-dir").arg(data.root()).args(flags);
            kubelets.push(oarlock_testkit::Process::start(command, "kubelet"));
        }
        let kubectl = cluster.kubectl();
        kubectl.until_says("get nodes", ["many-0", "many-1", "one"]);
        kubectl.until("get serviceaccount default -o name", |out| out.contains("default"));
        for node in ["many-0", "many-1", "one"] {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("on-{node}")},
                "spec": {"nodeName": node, "containers": [{"name": "main", "image": "nginx:1"}]},
            });
            kubectl.run_with("create -f -", &pod.to_string()).says(["created"]);
        }
        for node in ["many-0", "many-1", "one"] {
            kubectl.ok(&format!("wait --for=condition=Ready pod/on-{node} --timeout=60s"));
            kubectl.run(&format!("logs on-{node}")).is("main: line 1");
            kubectl.run(&format!("exec on-{node} -- true")).fails("runtime does not implement Exec");
        }
        // The process answers once for both nodes.
        let port = kubectl.ok("get node many-0 -o jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}");
        for (path, answers) in [("/healthz", true), ("/metrics", true), ("/configz", false)] {
            let mut command = std::process::Command::new(oarlock_testkit::oarlock());
            command.args(["probe", "--server", &format!("https://127.0.0.1:{port}"), "--path", path, "--kubeconfig"]);
            let output = command.arg(cluster.kubeconfig()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), answers, "{path}: {said}");
            assert!(answers || said.contains("name one in the Host header"), "{path}: {said}");
        }
    };
    tokio::task::spawn_blocking(test).await.unwrap();
}

//! Kubelets with simulated containers against a real API server, each as its own `system:node:…` under the Node authorizer.

use oarlock_apiserver::InProcess;
use oarlock_auth::UserInfo;
use oarlock_client::Client;
use oarlock_kubelet::{Fleet, KubeletHandle, NodeConfig};
use oarlock_runtime::clock;
use oarlock_testkit::wait::STEP_TIMEOUT;
use serde_json::{Value, json};

use crate::cluster::Cluster;

fn client(cluster: &Cluster, node: &str) -> Client {
    let user = UserInfo::new(format!("system:node:{node}"), ["system:nodes"]);
    Client::new(std::sync::Arc::new(InProcess::new(cluster.api.server.clone(), user, "kubelet/1")))
}

/// Starts a cluster and waits for the service account of its default namespace, without which pods cannot be created there.
async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    cluster
}

async fn node(cluster: &Cluster, fleet: &Fleet, name: &str, index: u16) -> KubeletHandle {
    let handle = fleet.add(client(cluster, name), NodeConfig::simulated(name, index)).await.unwrap();
    cluster
        .eventually("registration", || async {
            cluster.get("nodes", "", name).await.filter(|node| condition(node, "Ready")["status"] == "True")
        })
        .await;
    handle
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array();
    all.and_then(|all| all.iter().find(|one| one["type"] == kind)).unwrap_or(&Value::Null)
}

fn pod(name: &str, node: &str, annotations: &Value, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "nginx:1"}]},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod
}

async fn until(cluster: &Cluster, name: &str, what: &str, test: impl Fn(&Value) -> bool) -> Value {
    cluster
        .eventually(&format!("{name}: {what}"), || async {
            cluster.get("pods", "default", name).await.filter(|pod| test(pod))
        })
        .await
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}

fn waits_for(reason: &'static str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_registers_renews_its_lease_and_comes_back_when_deleted() {
    let cluster = cluster().await;
    let fleet = Fleet::new(cluster.system.clone());
    node(&cluster, &fleet, "n1", 0).await;
    let found = cluster.get("nodes", "", "n1").await.unwrap();
    assert_eq!(found["metadata"]["labels"]["kubernetes.io/hostname"], "n1");
    assert_eq!(
        found["status"]["capacity"],
        json!({"cpu": "8", "ephemeral-storage": "100Gi", "memory": "32Gi", "pods": "110"})
    );
    assert_eq!(found["status"]["allocatable"], found["status"]["capacity"]);
    assert!(found["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap().starts_with("v1.35."));
    let ready = condition(&found, "Ready");
    assert_eq!(
        (ready["reason"].as_str(), ready["message"].as_str()),
        (Some("KubeletReady"), Some("kubelet is posting ready status"))
    );
    let lease = cluster.eventually("lease", || async { cluster.get("leases", "kube-node-lease", "n1").await }).await;
    assert_eq!(lease["spec"]["holderIdentity"], "n1");
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], found["metadata"]["uid"]);
    cluster.delete("nodes", "", "n1").await;
    cluster
        .eventually("another registration", || async {
            let again = cluster.get("nodes", "", "n1").await?;
            (again["metadata"]["uid"] != found["metadata"]["uid"]).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_runs_is_deleted_gracefully_and_leaves_nothing() {
    let cluster = cluster().await;
    let fleet = Fleet::new(cluster.system.clone());
    let kubelet = node(&cluster, &fleet, "n1", 0).await;
    let slow = json!({"sim.oarlock.dev/stop-delay": "4s", "sim.oarlock.dev/log-lines": "3"});
    cluster.create("pods", pod("web", "n1", &slow, &json!({}))).await;
    let running = until(&cluster, "web", "ready", is_ready).await;
    let status = &running["status"];
    assert_eq!(status["phase"], "Running");
    assert!(status["podIP"].as_str().unwrap().starts_with("10.244.0."));
    assert_eq!(status["podIPs"][0]["ip"], status["podIP"]);
    assert_eq!(status["hostIPs"][0]["ip"], status["hostIP"]);
    assert_eq!(status["qosClass"], "BestEffort");
    assert_eq!(status["observedGeneration"], running["metadata"]["generation"]);
    let container = &status["containerStatuses"][0];
    assert!(container["state"]["running"]["startedAt"].is_string());
    assert!(container["containerID"].as_str().unwrap().starts_with("sim://"));
    assert!(container["imageID"].as_str().unwrap().starts_with("docker.io/library/nginx@sha256:"));
    assert_eq!(
        (&container["ready"], &container["started"], &container["restartCount"]),
        (&json!(true), &json!(true), &json!(0))
    );
    let log = kubelet.get("/containerLogs/default/web/main?tailLines=2").await.unwrap();
    assert_eq!(log.code, 200);
    assert_eq!(&log.bytes(1 << 20).await.unwrap()[..], b"main: line 2\nmain: line 3\n");
    let missing = kubelet.get("/containerLogs/default/web/other").await.unwrap();
    assert_eq!(missing.code, 404);
    assert_eq!(&missing.bytes(1 << 20).await.unwrap()[..], b"container \"other\" not found in pod \"web\"");

    cluster.delete("pods", "default", "web").await;
    let leaving = cluster.get("pods", "default", "web").await.expect("the grace period has only begun");
    assert!(leaving["metadata"]["deletionTimestamp"].is_string());
    cluster
        .eventually("removal", || async { cluster.get("pods", "default", "web").await.is_none().then_some(()) })
        .await;
    // The kubelet receives the deletion of the pod, which it requested itself, later than other clients.
    cluster
        .eventually("the kubelet forgets it", || async {
            let gone = kubelet.get("/containerLogs/default/web/main").await.unwrap();
            (gone.code == 404).then_some(())
        })
        .await;
    let events = cluster
        .eventually("events", || async {
            let all = cluster.list("events", "default").await;
            let reasons: Vec<String> = all.iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect();
            reasons.contains(&"Killing".to_owned()).then_some((all, reasons))
        })
        .await;
    for reason in ["Pulling", "Pulled", "Created", "Started", "Killing"] {
        assert!(events.1.iter().any(|seen| seen == reason), "{reason} of {:?}", events.1);
    }
    // Other components also write Events about the Node.
    let mut of_pods = events.0.iter().filter(|event| event["involvedObject"]["kind"] == "Pod");
    assert!(of_pods.all(|event| event["source"] == json!({"component": "kubelet", "host": "n1"})));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_fail_as_their_annotations_say() {
    let cluster = cluster().await;
    let fleet = Fleet::new(cluster.system.clone());
    node(&cluster, &fleet, "n1", 0).await;
    let say = |what: &str, value: &str| json!({format!("sim.oarlock.dev/main.{what}"): value});
    let never = json!({"restartPolicy": "Never"});
    cluster.create("pods", pod("image", "n1", &say("fail", "pull: no such thing"), &json!({}))).await;
    cluster.create("pods", pod("crash", "n1", &say("exit-code", "3"), &json!({}))).await;
    cluster.create("pods", pod("failed", "n1", &say("exit-code", "7"), &never)).await;
    cluster.create("pods", pod("done", "n1", &say("exit-code", "0"), &never)).await;
    cluster
        .create(
            "pods",
            pod(
                "big",
                "n1",
                &json!({}),
                &json!({"containers": [
        {"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": "9"}}}]}),
            ),
        )
        .await;
    cluster.create("pods", pod("elsewhere", "n1", &json!({}), &json!({"nodeSelector": {"disk": "ssd"}}))).await;

    until(&cluster, "image", "ErrImagePull", waits_for("ErrImagePull")).await;
    let image = until(&cluster, "image", "ImagePullBackOff", waits_for("ImagePullBackOff")).await;
    assert_eq!(
        image["status"]["containerStatuses"][0]["state"]["waiting"]["message"],
        "Back-off pulling image \"nginx:1\": ErrImagePull: no such thing"
    );
    let crash = until(&cluster, "crash", "CrashLoopBackOff", waits_for("CrashLoopBackOff")).await;
    let container = &crash["status"]["containerStatuses"][0];
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 3);
    // On an idle machine the container has one restart here; the back-off doubles with each restart.
    let restarts = container["restartCount"].as_u64().unwrap();
    let back_off = ["10s", "20s", "40s", "1m20s"][usize::try_from(restarts).unwrap() - 1];
    assert_eq!(crash["status"]["phase"], "Running");
    let uid = crash["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        container["state"]["waiting"]["message"],
        format!("back-off {back_off} restarting failed container=main pod=crash_default({uid})")
    );
    let failed = until(&cluster, "failed", "Failed", |pod| pod["status"]["phase"] == "Failed").await;
    let ended = &failed["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(7), &json!("Error")));
    assert_eq!(condition(&failed, "Ready")["reason"], "PodFailed");
    let done = until(&cluster, "done", "Succeeded", |pod| pod["status"]["phase"] == "Succeeded").await;
    assert_eq!(condition(&done, "Initialized")["reason"], "PodCompleted");
    let big = until(&cluster, "big", "rejection", |pod| pod["status"]["phase"] == "Failed").await;
    assert_eq!(big["status"]["reason"], "OutOfcpu");
    assert_eq!(
        big["status"]["message"],
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 8000"
    );
    let elsewhere = until(&cluster, "elsewhere", "rejection", |pod| pod["status"]["phase"] == "Failed").await;
    assert_eq!(elsewhere["status"]["reason"], "NodeAffinity");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubelet_that_starts_again_takes_up_what_ran() {
    let cluster = cluster().await;
    let fleet = Fleet::new(cluster.system.clone());
    let kubelet = node(&cluster, &fleet, "n1", 0).await;
    cluster.create("pods", pod("web", "n1", &json!({}), &json!({}))).await;
    let before = until(&cluster, "web", "ready", is_ready).await;
    kubelet.stop();
    kubelet.actor().ended(clock::after(STEP_TIMEOUT)).await.unwrap();
    // As after a crash of the kubelet's process, the simulated runtime holds no containers.
    let again = fleet.add(client(&cluster, "n1"), NodeConfig::simulated("n1", 0)).await.unwrap();
    cluster
        .eventually("logs of the pod", || async {
            let reply = again.get("/containerLogs/default/web/main").await.unwrap();
            (reply.code == 200).then_some(())
        })
        .await;
    let after = cluster.get("pods", "default", "web").await.unwrap();
    assert_eq!(after["status"], before["status"]);
    cluster.delete("pods", "default", "web").await;
    cluster
        .eventually("removal", || async { cluster.get("pods", "default", "web").await.is_none().then_some(()) })
        .await;
}

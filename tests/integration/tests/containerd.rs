//! Real containers: `oarlock up --runtime containerd` under real kubectl, over a containerd of the test's own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use oarlock_kubelet::cri::{Runtime, SandboxState};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Kubectl};
use serde_json::Value;

mod compose;
mod images;
mod in_cluster;
pub(crate) mod machine;
mod needs;
mod shims;
mod statics;
mod streams;
mod upstream;

use machine::Machine;

fn json(kubectl: &Kubectl, what: &str) -> Value {
    serde_json::from_str(&kubectl.ok(&format!("get {what} -o json"))).unwrap()
}

/// Waits until a pod passes `test`.
pub(crate) fn until(kubectl: &Kubectl, pod: &str, test: impl Fn(&Value) -> bool) -> Value {
    let line = format!("get pod {pod} -o json");
    let text = kubectl.until(&line, |out| serde_json::from_str(out).is_ok_and(|pod| test(&pod)));
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

fn phase(wanted: &str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["phase"] == wanted
}

fn waits(wanted: &str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == wanted
}

/// A pod of one container; `more` are further fields of the container, `spec` of the pod, both in YAML's flow style.
pub(crate) fn pod(name: &str, script: &str, more: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 2\n{spec}\n  containers:\n  \
         - name: main\n    image: {}\n    command: [sh, -c, {script:?}]\n{more}\n",
        images::BUSYBOX
    )
}

pub(crate) fn apply(kubectl: &Kubectl, manifest: &str) {
    let _ = kubectl.run_with("apply -f -", manifest).ok();
}

/// Pods need their namespace's account.
pub(crate) fn settled(cluster: &Cluster) -> Kubectl {
    let kubectl = cluster.kubectl();
    settle(&kubectl);
    kubectl
}

pub(crate) fn settle(kubectl: &Kubectl) {
    kubectl.until("get serviceaccount default", |_| true);
    kubectl.until("get nodes", |out| out.contains(" Ready "));
}

fn get(ip: &str, port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((ip, port))?;
    stream.write_all(b"GET /name HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: web
        image: localhost/busybox:1
        command: [sh, -c, 'hostname > /www/name; trap "exit 0" TERM; httpd -f -p 8080 -h /www & wait']
        resources: {requests: {cpu: 10m, memory: 8Mi}, limits: {memory: 64Mi}}
"#;

/// The kubelet's resource statistics of the machine, its pods and their containers, and its configuration.
fn figures(kubectl: &Kubectl, node: &str) {
    let summary = kubectl.ok(&format!("get --raw /api/v1/nodes/{node}/proxy/stats/summary"));
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let some = |of: &Value, path: &str| assert!(of.pointer(path).and_then(Value::as_u64) > Some(0), "{path}: {of}");
    for path in
        ["/cpu/usageCoreNanoSeconds", "/memory/workingSetBytes", "/fs/usedBytes", "/runtime/imageFs/capacityBytes"]
    {
        some(&summary["node"], path);
    }
    let pods = summary["pods"].as_array().unwrap();
    let web: Vec<&Value> =
        pods.iter().filter(|pod| pod["podRef"]["name"].as_str().unwrap().starts_with("web-")).collect();
    assert_eq!(web.len(), 2, "{summary}");
    for pod in web {
        for path in ["/cpu/usageCoreNanoSeconds", "/memory/workingSetBytes", "/network/rxBytes"] {
            some(pod, path);
        }
        some(&pod["containers"][0], "/memory/workingSetBytes");
    }
    kubectl.until_says(
        &format!("get --raw /api/v1/nodes/{node}/proxy/configz"),
        ["\"kind\":\"KubeletConfiguration\"", "\"syncFrequency\":\"1m0s\""],
    );
}

#[test]
fn a_deployment_runs_answers_and_leaves_nothing() {
    let Some(machine) = Machine::start() else { return };
    let cluster = machine.cluster();
    let kubectl = settled(&cluster);
    apply(&kubectl, WEB);
    kubectl.ok("rollout status deployment/web --timeout=90s");
    let pods = json(&kubectl, "pods -l app=web");
    let pods: Vec<&Value> = pods["items"].as_array().unwrap().iter().collect();
    assert_eq!(pods.len(), 2);
    for pod in &pods {
        let status = &pod["status"];
        let (ip, main) = (status["podIP"].as_str().unwrap(), &status["containerStatuses"][0]);
        assert!(ip.starts_with(&machine.pods()), "{ip}");
        assert!(main["containerID"].as_str().unwrap().starts_with("containerd://"), "{main}");
        assert!(main["imageID"].as_str().unwrap().contains("sha256:"), "{main}");
        // The pod is reached from the host and from another pod.
        let text = eventually("an answer", || get(ip, 8080));
        assert!(text.contains(pod["metadata"]["name"].as_str().unwrap()), "{text}");
    }
    let ip = pods[0]["status"]["podIP"].as_str().unwrap();
    let ask = pod("ask", &format!("wget -qO- http://{ip}:8080/name"), "", "  restartPolicy: Never");
    apply(&kubectl, &ask);
    until(&kubectl, "ask", phase("Succeeded"));
    let name = pods[0]["metadata"]["name"].as_str().unwrap();
    kubectl.until_says("logs ask", [name]);

    let (sandboxes, running) = machine.cri(async |cri| {
        let sandboxes = cri.list_pod_sandbox(None).await.unwrap();
        let mut running = 0;
        for sandbox in sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready) {
            running += cri.list_containers(&sandbox.id).await.unwrap().len();
        }
        (sandboxes.len(), running)
    });
    assert_eq!((sandboxes, running), (3, 2), "two that run, one that is done");
    let node = &json(&kubectl, "nodes")["items"][0];
    figures(&kubectl, node["metadata"]["name"].as_str().unwrap());
    let runtime = node["status"]["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap();
    assert!(runtime.starts_with("containerd://"), "{runtime}");
    assert!(node["status"]["images"].to_string().contains(images::BUSYBOX), "{node}");

    kubectl.ok("delete deployment/web pod/ask --wait");
    kubectl.until("get pods", |out| !out.contains("web-"));
    machine.until_clean();
}

/// Kubernetes' interface does not show a container that was not made through it, so what removes pods does not remove this one.
#[test]
fn a_machine_ends_with_every_shim_of_its_containerd() {
    let Some(mut machine) = Machine::start() else { return };
    let lost = format!("lost-{}", std::process::id());
    machine.ctr(&["run", "--detach", images::BUSYBOX, &lost, "sleep", "100000"]);
    let state = Path::new(shims::RUNC_STATE).join(&lost);
    assert!(state.is_dir());
    machine.kill_containerd();
    let socket = machine.socket();
    let shims = shims::of(&socket);
    assert_eq!(shims.len(), 1, "{shims:?}");
    drop(machine);
    assert_eq!(shims::of(&socket), Vec::<String>::new());
    assert!(!state.exists());
}

#[test]
fn pods_survive_restarts_of_the_kubelet_and_of_the_runtime() {
    let Some(mut machine) = Machine::start() else { return };
    let mut cluster = machine.cluster();
    let kubectl = settled(&cluster);
    apply(&kubectl, WEB);
    apply(&kubectl, &pod("ends", "sleep 3; exit 3", "", "  restartPolicy: Never"));
    kubectl.ok("rollout status deployment/web --timeout=90s");
    until(&kubectl, "ends", phase("Running"));
    let containers = || {
        let pods = json(&cluster.kubectl(), "pods -l app=web");
        let one = |pod: &Value| (pod["status"]["containerStatuses"].clone(), pod["status"]["podIP"].clone());
        pods["items"].as_array().unwrap().iter().map(one).collect::<Vec<_>>()
    };
    let before = containers();
    cluster.kill();
    cluster.start();
    // After the restart the port and the kubeconfig are other ones.
    let kubectl = settled(&cluster);
    // When the kubelet reports the container that ended meanwhile, it has examined all containers.
    let ended = until(&kubectl, "ends", phase("Failed"));
    assert_eq!(ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
    let containers = || {
        let pods = json(&kubectl, "pods -l app=web");
        let one = |pod: &Value| (pod["status"]["containerStatuses"].clone(), pod["status"]["podIP"].clone());
        pods["items"].as_array().unwrap().iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(containers(), before, "after a restart of the kubelet");

    machine.kill_containerd();
    kubectl.until("get nodes", |out| out.contains("NotReady"));
    machine.run_containerd();
    kubectl.until("get nodes", |out| out.contains(" Ready "));
    // Containerd works again; the running containers were not touched.
    apply(&kubectl, &pod("after", "exit 4", "", "  restartPolicy: Never"));
    let after = until(&kubectl, "after", phase("Failed"));
    assert_eq!(after["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 4);
    assert_eq!(containers(), before, "after a restart of containerd");
    // The kubelet learns of exits through the new connection.
    kubectl.ok("delete deployment/web pod/ends pod/after --wait");
    kubectl.until("get pods", |out| !out.contains("web-"));
    machine.until_clean();
}

#[test]
fn two_kubelets_are_two_nodes_whose_pods_reach_each_other() {
    let (Some(first), Some(second)) = (Machine::start(), Machine::start()) else { return };
    first.link(&second);
    let cluster = Cluster::up(&["--disable", "kubelet"]);
    let kubelets = [first.kubelet(&cluster, "n1"), second.kubelet(&cluster, "n2")];
    let kubectl = cluster.kubectl();
    kubectl.until("get serviceaccount default", |_| true);
    kubectl.until("get nodes", |out| out.matches(" Ready ").count() == 2);
    let probe = "    readinessProbe: {httpGet: {path: /name, port: 8080}, periodSeconds: 1}";
    let script = "hostname > /www/name; trap 'exit 0' TERM; httpd -f -p 8080 -h /www & wait";
    apply(&kubectl, &pod("serves", script, probe, "  nodeName: n2"));
    let serves = until(&kubectl, "serves", ready);
    let ip = serves["status"]["podIP"].as_str().unwrap();
    assert!(ip.starts_with(&second.pods()), "{ip}");
    let script = format!("[ $(wget -qO- http://{ip}:8080/name) = serves ]");
    apply(&kubectl, &pod("asks", &script, "", "  nodeName: n1\n  restartPolicy: Never"));
    let asks = until(&kubectl, "asks", |pod| pod["status"]["containerStatuses"][0]["state"]["terminated"].is_object());
    assert_eq!(asks["status"]["phase"], "Succeeded", "{}", asks["status"]);
    assert!(asks["status"]["podIP"].as_str().unwrap().starts_with(&first.pods()));
    kubectl.ok("delete pod --all --wait");
    first.until_clean();
    second.until_clean();
    drop(kubelets);
}

#[test]
fn a_kubelet_killed_at_any_moment_leaves_no_orphans() {
    let Some(mut machine) = Machine::start() else { return };
    let mut cluster = machine.cluster();
    settled(&cluster);
    for round in 0..3 {
        let kubectl = settled(&cluster);
        let names: Vec<String> = (0..4).map(|number| format!("r{round}-{number}")).collect();
        for name in &names {
            apply(&kubectl, &pod(name, "trap 'exit 0' TERM; sleep 1000 & wait", "", ""));
        }
        // The kill happens during the start of the pods: the first sandbox exists, or the first container runs.
        eventually("something has begun", || {
            let begun = machine.cri(async |cri| cri.list_pod_sandbox(None).await.unwrap().len());
            if begun > round { Ok(()) } else { Err("nothing") }
        });
        cluster.kill();
        cluster.start();
        let kubectl = settled(&cluster);
        for name in &names {
            until(&kubectl, name, ready);
        }
        let mut uids = machine.cri(async |cri| {
            let all = cri.list_pod_sandbox(None).await.unwrap();
            all.into_iter().map(|sandbox| sandbox.uid).collect::<Vec<_>>()
        });
        uids.sort();
        assert_eq!(uids.len(), names.len(), "one sandbox a pod");
        uids.dedup();
        assert_eq!(uids.len(), names.len(), "one sandbox a pod");
        // The second kill happens while the pods terminate.
        kubectl.ok(&format!("delete pod {} --wait=false", names.join(" ")));
        cluster.kill();
        cluster.start();
        let kubectl = settled(&cluster);
        kubectl.until("get pods", |out| !out.contains("r"));
        machine.until_clean_after_kill();
    }
}

#[test]
fn what_fails_says_why() {
    let Some(machine) = Machine::start() else { return };
    let cluster = machine.cluster();
    let kubectl = settled(&cluster);
    let image = |name: &str, image: &str, policy: &str| {
        let text = pod(name, "true", &format!("    imagePullPolicy: {policy}"), "");
        apply(&kubectl, &text.replace(images::BUSYBOX, image));
    };
    image("never", "localhost/nothing:1", "Never");
    image("invalid", "Not/An/Image", "IfNotPresent");
    image("nowhere", "127.0.0.1:1/nothing:1", "IfNotPresent");
    let never = "  restartPolicy: Never";
    let apply_pod = |name: &str, script: &str, more: &str, spec: &str| {
        apply(&kubectl, &pod(name, script, more, spec));
    };
    apply_pod("crash", "exit 5", "", "");
    apply_pod("message", "echo told > /dev/termination-log; exit 6", "", never);
    apply_pod("log", "echo first; echo last; exit 7", "    terminationMessagePolicy: FallbackToLogsOnError", never);
    let limit = "    resources: {limits: {memory: 16Mi}}";
    apply_pod("oom", "exec tail /dev/zero", limit, never);
    apply_pod("root", "true", "    securityContext: {runAsNonRoot: true}", "");
    let missing = pod("missing", "true", "", never).replace("[sh, -c, \"true\"]", "[/no/such/thing]");
    apply(&kubectl, &missing);
    let user = "    securityContext: {runAsUser: 65534, readOnlyRootFilesystem: true}";
    apply_pod("user", "id -u; touch /x || exit 8", user, never);

    assert_eq!(until(&kubectl, "never", waits("ErrImageNeverPull"))["status"]["phase"], "Pending");
    until(&kubectl, "invalid", waits("InvalidImageName"));
    let nowhere = until(&kubectl, "nowhere", waits("ImagePullBackOff"));
    let text = nowhere["status"]["containerStatuses"][0]["state"]["waiting"]["message"].as_str().unwrap().to_owned();
    assert!(
        text.starts_with("Back-off pulling image \"127.0.0.1:1/nothing:1\": ErrImagePull: rpc error: code = "),
        "{text}"
    );
    let mut trace = std::process::Command::new(oarlock_testkit::oarlock());
    kubectl.configure(trace.args(["trace", "pod/nowhere"]));
    let output = trace.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let wanted = ["volumes", "sandbox", "pull main", "error: ErrImagePull: rpc error", "is not Ready: stage pull"];
    assert!(wanted.iter().all(|words| text.contains(words)), "{text}");
    let crash = until(&kubectl, "crash", waits("CrashLoopBackOff"));
    assert_eq!(crash["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 5);
    let ended = |name: &str| {
        let pod = until(&kubectl, name, phase("Failed"));
        pod["status"]["containerStatuses"][0]["state"]["terminated"].clone()
    };
    let message = ended("message");
    assert_eq!((&message["exitCode"], message["message"].as_str()), (&Value::from(6), Some("told\n")));
    assert_eq!(ended("log")["message"], "first\nlast\n");
    let oom = ended("oom");
    assert_eq!((&oom["exitCode"], oom["reason"].as_str()), (&Value::from(137), Some("OOMKilled")));
    let missing = ended("missing");
    assert_eq!((&missing["exitCode"], missing["reason"].as_str()), (&Value::from(128), Some("StartError")));
    assert_eq!(ended("user")["exitCode"], 8);
    kubectl.until_says("logs user", ["65534"]);
    let root = until(&kubectl, "root", waits("CreateContainerConfigError"));
    let text = root["status"]["containerStatuses"][0]["state"]["waiting"]["message"].as_str().unwrap().to_owned();
    assert!(text.starts_with("container has runAsNonRoot and image will run as root (pod: \"root_default("), "{text}");
    for reason in ["Failed", "BackOff", "Pulling", "InspectFailed", "ErrImageNeverPull", "Started"] {
        kubectl.until_says("get events", [reason]);
    }
    kubectl.ok("delete pod --all --wait");
    machine.until_clean();
}

#[test]
fn init_containers_come_first_sidecars_stay_and_logs_are_read() {
    let Some(machine) = Machine::start() else { return };
    let cluster = machine.cluster();
    let kubectl = settled(&cluster);
    let before = "  initContainers:\n  - {name: side, image: localhost/busybox:1, restartPolicy: Always, \
                  command: [sh, -c, 'trap \"exit 0\" TERM; sleep 1000 & wait']}\n  \
                  - {name: first, image: localhost/busybox:1, command: [sh, -c, 'echo one; sleep 1']}";
    let script = "for i in 1 2 3 4 5; do echo line $i; done; hostname; cat /etc/hosts; sleep 1; exit 1";
    apply(&kubectl, &pod("web", script, "", before));
    let crashed = until(&kubectl, "web", |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"].as_u64().is_some_and(|count| count >= 1)
    });
    let init = &crashed["status"]["initContainerStatuses"];
    assert_eq!(init[1]["state"]["terminated"]["exitCode"], 0);
    assert!(init[0]["state"]["running"].is_object(), "the sidecar runs on: {init}");
    kubectl.until_says("logs web -c first", ["one"]);
    kubectl.until_says("logs web --previous --tail=100", ["line 1\nline 2\n", "web\n", "Kubernetes-managed"]);
    let stamped = kubectl.ok("logs web --previous --timestamps --limit-bytes=24");
    assert!(stamped.starts_with("20") && stamped.len() == 24, "{stamped}");
    let talks = "i=0; while [ $i -lt 8 ]; do i=$((i+1)); echo talk $i; sleep 0.3; done";
    apply(&kubectl, &pod("talks", talks, "", "  restartPolicy: Never"));
    until(&kubectl, "talks", phase("Running"));
    // `logs -f` ends when the container ends, after all of its output.
    kubectl.until_says("logs -f talks", ["talk 1\n", "talk 8\n"]);
    kubectl.ok("delete pod --all --wait");
    machine.until_clean();
}

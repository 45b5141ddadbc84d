//! The tunnel to nodes as the chart runs it, and its agent as docs/operations/tunnel.md does.

use std::path::Path;

use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Process, port};
use serde_json::{Value, json};

use super::helm::{EVERYTHING, Helm, objects, repository};
use super::rules::{Pod, items, name, pods};
use crate::crew::nodes;

/// Name of the tunnel's server, of its container and of the folder of its keys.
const SERVER: &str = "konnectivity-server";
/// Name of the agent, of its container and of the folder of its keys.
const AGENT: &str = "konnectivity-agent";

/// Returns the pods of a Deployment or another workload.
fn pod<'a>(objects: &'a [Value], owner: &str) -> Pod<'a> {
    pods(objects).into_iter().find(|pod| pod.owner == owner).unwrap()
}

fn container<'a>(pod: &'a Pod<'_>, name: &str) -> &'a Value {
    pod.containers().find(|container| container["name"] == name).unwrap()
}

fn words(container: &Value) -> Vec<String> {
    items(&container["args"]).map(|word| word.as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn has(container: &Value, word: &str) {
    assert!(words(container).iter().any(|known| known == word), "{word}: {container}");
}

#[test]
fn the_tunnels_server_runs_before_the_api_server_and_after_it() {
    let Some(helm) = Helm::new() else { return };
    let objects = helm.mode("full", &["apiserver.replicas=3", "konnectivity.extraArgs={--keepalive-time=10s}"]);
    let pod = pod(&objects, "Deployment/rel-apiserver");
    let server = container(&pod, SERVER);
    // Such a container is started before all others and stopped after them.
    assert_eq!((&pod.spec["initContainers"][0], &server["restartPolicy"]), (server, &json!("Always")));
    assert!(server["startupProbe"].is_object() && server["livenessProbe"].is_object());
    assert!(server["readinessProbe"].is_null(), "without an agent there would be no API");
    has(server, "--server-count=3");
    has(server, "--keepalive-time=10s");
    // The two share a socket, and nothing that is secret.
    let api = container(&pod, "apiserver");
    has(api, "--egress-selector-config-file=/egress/egress.yaml");
    let mount = |container: &Value| items(&container["volumeMounts"]).find(|mount| mount["name"] == "tunnel").cloned();
    let (served, used) = (mount(server).unwrap(), mount(api).unwrap());
    assert_eq!(
        (&served["mountPath"], &served["readOnly"], &used["readOnly"]),
        (&used["mountPath"], &Value::Null, &json!(true))
    );
    let socket = format!("{}/server.sock", served["mountPath"].as_str().unwrap());
    has(server, &format!("--uds-name={socket}"));
    let egress = objects.iter().find(|object| name(object) == "ConfigMap/rel-egress").unwrap();
    assert!(egress["data"]["egress.yaml"].as_str().unwrap().contains(&format!("udsName: {socket}}}")), "{egress}");
    // With a number that changes, agents count what is always there.
    let scaled = helm.mode("full", &EVERYTHING);
    has(container(&self::pod(&scaled, "Deployment/rel-apiserver"), SERVER), "--server-count=2");
}

#[test]
fn only_a_control_plane_of_its_own_has_a_tunnel_and_only_if_it_is_wanted() {
    let Some(helm) = Helm::new() else { return };
    let full = helm.mode("full", &["konnectivity.service.type=LoadBalancer"]);
    let service = full.iter().find(|object| name(object) == "Service/rel-konnectivity").unwrap();
    assert_eq!(
        (&service["spec"]["type"], &service["spec"]["ports"][0]["port"]),
        (&json!("LoadBalancer"), &json!(8132))
    );
    for objects in [helm.mode("full", &["konnectivity.enabled=false"]), helm.mode("apiserver-over-existing-etcd", &[])]
    {
        let pod = pod(&objects, "Deployment/rel-apiserver");
        assert!(pod.containers().count() == 1 && !pod.spec.to_string().contains("egress"), "{}", pod.spec);
        let of_tunnel = |object: &&Value| name(object).ends_with("-konnectivity") || name(object).ends_with("-egress");
        assert_eq!(objects.iter().find(of_tunnel), None);
    }
}

/// Starts a program as a container runs it; each pair is a text of the container's and what is there instead of it.
fn start(container: &Value, texts: &[(&str, &str)], more: &[String]) -> Process {
    let filled = |word: String| texts.iter().fold(word, |word, (text, other)| word.replace(text, other));
    let mut words = words(container).into_iter().map(filled);
    let program = words.next().unwrap();
    let mut command = oarlock_testkit::part(&program);
    command.args(words).args(more);
    Process::start(command, &program)
}

/// Makes the keys that the chart's hook makes, in folders in place of Secrets.
fn make_keys(objects: &[Value], folder: &Path) {
    let hook = pod(objects, "Job/rel-keys-hook");
    let words = words(container(&hook, "keys"));
    let elsewhere = ["--to-secret=", "--namespace="];
    let kept = words.iter().filter(|word| !elsewhere.iter().any(|flag| word.starts_with(flag)));
    let mut command = std::process::Command::new(oarlock_testkit::oarlock());
    command.args(kept).arg("--data-dir").arg(folder.join("data")).arg("--parts").arg(folder.join("parts"));
    assert!(command.status().unwrap().success());
}

#[test]
fn a_log_comes_through_the_tunnel_of_the_chart_by_the_documented_agent() {
    let Some(helm) = Helm::new() else { return };
    let rendered = helm.mode("full", &["konnectivity.hostnames={127.0.0.1}", "apiserver.replicas=1"]);
    let folder = tempfile::tempdir().unwrap();
    make_keys(&rendered, folder.path());
    let at = |path: &str| folder.path().join(path).display().to_string();

    let (agents, health) = (port::own(), port::own());
    let api = pod(&rendered, "Deployment/rel-apiserver");
    let texts =
        [("/keys", at("parts/konnectivity-server")), ("/run/konnectivity", at("")), ("$(POD_NAME)", "a".into())];
    let texts = texts.each_ref().map(|(text, other)| (*text, other.as_str()));
    let ports = [format!("--agent-port={agents}"), format!("--health-port={health}")];
    let server = start(container(&api, SERVER), &texts, &ports);

    // The API server's own flag, with the file of the ConfigMap.
    let flag = words(container(&api, "apiserver")).into_iter().find(|word| word.starts_with("--egress-")).unwrap();
    let egress = rendered.iter().find(|object| name(object) == "ConfigMap/rel-egress").unwrap();
    let egress = egress["data"]["egress.yaml"].as_str().unwrap().replace("/run/konnectivity", &at(""));
    std::fs::write(folder.path().join("egress.yaml"), egress).unwrap();
    let flag = flag.replace("/egress/egress.yaml", &at("egress.yaml"));
    let cluster = Cluster::up(&["--disable", "kubelet", &flag]);
    let _nodes = nodes(&cluster, "1");
    let kubectl = cluster.kubectl();
    let web = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "annotations": {"sim.oarlock.dev/log-lines": "5"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}});
    kubectl.until("get serviceaccount default -o name", |out| !out.is_empty());
    kubectl.run_with("create -f -", &web.to_string()).says(["created"]);
    kubectl.until("get pod web -o jsonpath={.status.phase}", |out| out.contains("Running"));
    let refused = kubectl.run("logs web");
    assert!(refused.code != 0 && refused.err.contains("no agent is available for "), "{refused}{}", server.said());

    let manifest = objects(&std::fs::read_to_string(repository("docs/operations/tunnel/agent.yaml")).unwrap());
    let daemons = manifest.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
    let documented = daemons.pointer("/spec/template/spec/containers/0").unwrap();
    assert_eq!(documented["name"], AGENT);
    let agent = |keys: &str| {
        let (keys, server) = (at(&format!("parts/{keys}")), agents.to_string());
        let texts = [
            ("tunnel.example.org", "127.0.0.1"),
            ("8132", server.as_str()),
            ("/keys", keys.as_str()),
            ("$(NODE_NAME)", "node-0"),
            ("$(NODE_IP)", "127.0.0.1"),
        ];
        start(documented, &texts, &[format!("--health-server-port={}", port::own())])
    };
    // A certificate of the cluster's authority, which every node has, makes nobody an agent.
    std::fs::create_dir(folder.path().join("parts/stranger")).unwrap();
    for (from, to) in [
        ("konnectivity-agent/ca.crt", "ca.crt"),
        ("monitoring/client.crt", "agent.crt"),
        ("monitoring/client.key", "agent.key"),
    ] {
        std::fs::copy(at(&format!("parts/{from}")), at(&format!("parts/stranger/{to}"))).unwrap();
    }
    let stranger = agent("stranger");
    eventually("the stranger is refused", || {
        let said = stranger.said();
        if said.contains("no connection to a tunnel server") { Ok(()) } else { Err(said) }
    });
    kubectl.run("logs web").fails("no agent is available for ");

    let known = agent(AGENT);
    eventually("the log of the pod", || {
        let ran = kubectl.run("logs web --tail=1");
        if ran.out.trim() == "main: line 5" { Ok(()) } else { Err(format!("{ran}\n{}", known.said())) }
    });
}

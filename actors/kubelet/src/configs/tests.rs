//! Tests of the configurations of sandboxes and containers that the runtime gets.

use std::path::Path;

use oarlock_client::decode;
use oarlock_schema::{Obj, type_of_kind};
use serde_json::{Value, json};

use super::*;
use crate::cri::{Image, v1};
use crate::dns::Dns;
use crate::downward;
use crate::environment::Variables;

fn object(spec: &Value, qos: &str) -> Obj {
    let pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1", "labels": {"app": "web"},
        "annotations": {"note": "x"}}, "spec": spec, "status": {"qosClass": qos}});
    decode(type_of_kind("", "v1", "Pod").unwrap(), pod.to_string().as_bytes()).unwrap()
}

fn sandbox_of(spec: &Value) -> v1::PodSandboxConfig {
    let dns =
        Dns { domain: "cluster.local".to_owned(), host: Some("nameserver 9.9.9.9\n".to_owned()), ..Dns::default() };
    let object = object(spec, "BestEffort");
    sandbox(downward::pod(&object), 2, &dns, Path::new("/var/log/pods"), "/kubepods/podu1".to_owned()).unwrap().0
}

#[test]
fn a_sandbox_is_told_who_it_is_and_what_it_may() {
    let config = sandbox_of(&json!({"dnsPolicy": "Default", "hostname": "db", "shareProcessNamespace": true,
        "securityContext": {"fsGroup": 5, "supplementalGroups": [6], "runAsUser": 7, "sysctls": [{"name": "a.b", "value": "1"}]},
        "containers": [{"name": "c", "securityContext": {"privileged": true},
            "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}]}]}));
    let meta = config.metadata.unwrap();
    assert_eq!(
        (meta.name.as_str(), meta.namespace.as_str(), meta.uid.as_str(), meta.attempt),
        ("web", "shop", "u1", 2)
    );
    assert_eq!((config.hostname.as_str(), config.log_directory.as_str()), ("db", "/var/log/pods/shop_web_u1"));
    assert_eq!(config.dns_config.unwrap().servers, ["9.9.9.9"]);
    let port = &config.port_mappings[0];
    assert_eq!((port.protocol, port.container_port, port.host_port), (v1::Protocol::Udp as i32, 80, 8080));
    assert_eq!((config.labels["app"].as_str(), config.labels["io.kubernetes.pod.uid"].as_str()), ("web", "u1"));
    let linux = config.linux.unwrap();
    assert_eq!((linux.cgroup_parent.as_str(), linux.sysctls["a.b"].as_str()), ("/kubepods/podu1", "1"));
    let security = linux.security_context.unwrap();
    assert!(security.privileged);
    assert_eq!((security.supplemental_groups, security.run_as_user.unwrap().value), (vec![5, 6], 7));
    let spaces = security.namespace_options.unwrap();
    assert_eq!((spaces.network, spaces.pid, spaces.ipc), (0, v1::NamespaceMode::Pod as i32, 0));
}

#[test]
fn a_pod_of_the_nodes_network_keeps_the_nodes_name() {
    let config = sandbox_of(&json!({"hostNetwork": true, "hostPID": true, "containers": [{"name": "c"}]}));
    assert_eq!(config.hostname, "");
    let spaces = config.linux.unwrap().security_context.unwrap().namespace_options.unwrap();
    assert_eq!((spaces.network, spaces.pid), (v1::NamespaceMode::Node as i32, v1::NamespaceMode::Node as i32));
    let spec = json!({"hostname": "db", "subdomain": "sql", "setHostnameAsFQDN": true, "containers": []});
    assert_eq!(sandbox_of(&spec).hostname, "db.sql.shop.svc.cluster.local");
}

#[test]
fn a_container_is_told_what_its_spec_says() {
    let spec = json!({"terminationGracePeriodSeconds": 9, "containers": [{"name": "c", "image": "busybox", "command": ["a", "$(X)"],
        "workingDir": "/w", "tty": true, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "32Mi"}},
        "securityContext": {"allowPrivilegeEscalation": false, "seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"}}}]});
    let object = object(&spec, "Burstable");
    let pod = downward::pod(&object);
    let image = Image {
        id: "docker.io/x@sha256:1".into(),
        own: "sha256:2".into(),
        names: Vec::new(),
        size: 1,
        user: Some(12),
        username: "".into(),
        pinned: false,
    };
    let variables = Variables::from([("X".to_owned(), "y".to_owned())]);
    let made = Made {
        attempt: 3,
        image: &image,
        variables: &variables,
        mounts: Vec::new(),
        seccomp: Path::new("/root/seccomp"),
        memory: 1 << 30,
        pages: &[],
    };
    let config = container(pod, downward::find(pod, "c").unwrap(), made).unwrap();
    assert_eq!(
        (config.command, config.log_path.as_str(), config.tty),
        (vec!["a".to_owned(), "y".to_owned()], "c/3.log", true)
    );
    let named = config.image.unwrap();
    assert_eq!((named.image.as_str(), named.user_specified_image.as_str()), ("sha256:2", "busybox"));
    assert_eq!(config.annotations["io.kubernetes.container.terminationMessagePath"], "/dev/termination-log");
    assert_eq!(config.annotations["io.kubernetes.container.ports"], r#"[{"containerPort":80,"protocol":"TCP"}]"#);
    let linux = config.linux.unwrap();
    let resources = linux.resources.unwrap();
    assert_eq!((resources.cpu_quota, resources.cpu_shares, resources.memory_limit_in_bytes), (50_000, 102, 64 << 20));
    assert_eq!(resources.oom_score_adj, 1000 - 31);
    let security = linux.security_context.unwrap();
    assert_eq!((security.run_as_user.unwrap().value, security.no_new_privs), (12, true));
    assert_eq!(security.seccomp.unwrap().localhost_ref, "/root/seccomp/p.json");
    assert_eq!(pod_limits(pod), PodLimits { cpu_shares: 102, cpu_quota: Some(50_000), memory: Some(64 << 20) });
}

#[test]
fn a_pod_is_bounded_where_all_its_containers_are() {
    let one = |cpu: &str, memory: Option<&str>| {
        let mut limits = json!({"cpu": cpu});
        if let Some(memory) = memory {
            limits["memory"] = memory.into();
        }
        json!({"name": cpu, "resources": {"limits": limits, "requests": {"cpu": cpu}}})
    };
    let limits = |spec: Value, qos: &str| pod_limits(downward::pod(&object(&spec, qos)));
    let both =
        json!({"containers": [one("1", Some("1Mi")), one("2", None)], "initContainers": [one("4", Some("1Mi"))]});
    let wanted = PodLimits { cpu_shares: 4096, cpu_quota: Some(400_000), memory: None };
    assert_eq!(
        limits(both, "Burstable"),
        wanted,
        "the init container asks for the most, and one has no bound of memory"
    );
    let nothing = json!({"containers": [{"name": "c"}]});
    assert_eq!(limits(nothing, "BestEffort"), PodLimits { cpu_shares: 2, ..PodLimits::default() });
}

/// Expected results follow the `ContainerFn` of upstream's `ResourceConfigForPod`.
#[test]
fn a_sidecar_bounds_the_init_containers_after_it_and_overhead_is_added() {
    let memory = |spec: Value| pod_limits(downward::pod(&object(&spec, "Burstable"))).memory;
    let limited = json!({"name": "a", "resources": {"limits": {"memory": "1Gi"}}});
    let mut sidecar = limited.clone();
    sidecar["restartPolicy"] = "Always".into();
    let silent = json!({"name": "b"});
    let rows = [
        (json!({"containers": [limited, limited]}), Some(2 << 30)),
        (json!({"containers": [limited, silent]}), None),
        (json!({"containers": [silent], "resources": {"limits": {"memory": "1Mi"}}}), Some(1 << 20)),
        (json!({"containers": [limited], "overhead": {"memory": "1Gi"}}), Some(2 << 30)),
        (json!({"containers": [limited], "initContainers": [sidecar, silent]}), Some(2 << 30)),
        (json!({"containers": [limited], "initContainers": [silent, sidecar]}), None),
        (json!({"containers": [limited], "initContainers": [limited, silent]}), None),
        (json!({"containers": [silent], "initContainers": [sidecar]}), None),
    ];
    for (spec, wanted) in rows {
        assert_eq!(memory(spec.clone()), wanted, "{spec}");
    }
}

//! `--feature-gates`: which fields are kept, and what is refused.

use std::process::Command;

use oarlock_testkit::Cluster;
use oarlock_testkit::http::Who;
use serde_json::json;

#[test]
fn gates_that_are_unknown_or_locked_are_refused_by_name() {
    for command in ["up", "apiserver"] {
        for (gates, why) in [
            ("Nonsense=true", "unrecognized feature gate: Nonsense"),
            ("HostnameOverride", "missing bool value for HostnameOverride"),
            ("HostnameOverride=perhaps", "invalid value of HostnameOverride=perhaps"),
            ("InPlacePodVerticalScaling=false", "feature is locked to true"),
        ] {
            let flag = format!("--feature-gates={gates}");
            let ran = Command::new(oarlock_testkit::oarlock()).args([command, &flag]).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status.code(), Some(2), "{command} {flag}: {said}");
            assert!(said.contains(why), "{command} {flag}: {said}");
        }
    }
}

#[test]
fn a_gate_decides_which_fields_are_kept() {
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "strategy": "OldestEmulationVersion", "preferredHolder": "b"}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"hostnameOverride": "h", "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i"}]}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let pods = "/api/v1/namespaces/default/pods";
    for (flags, strategy, hostname) in [
        (vec![], json!(null), json!("h")),
        (
            vec!["--feature-gates", "CoordinatedLeaderElection=true,HostnameOverride=false"],
            json!("OldestEmulationVersion"),
            json!(null),
        ),
    ] {
        let mut all = vec!["--ephemeral", "--disable", "scheduler,controller-manager,kubelet"];
        all.extend(flags);
        let cluster = Cluster::up(&all);
        let http = cluster.http(Who::Admin);
        let account = json!({"metadata": {"name": "default"}});
        assert_eq!(http.json("POST", "/api/v1/namespaces/default/serviceaccounts", &account).code, 201);
        let (lease, pod) = (http.json("POST", leases, &lease), http.json("POST", pods, &pod));
        assert_eq!((lease.code, pod.code), (201, 201), "{lease} {pod}");
        assert_eq!(lease.json()["spec"]["strategy"], strategy, "{lease}");
        assert_eq!(pod.json()["spec"]["hostnameOverride"], hostname, "{pod}");
        let on = u8::from(!strategy.is_null());
        let line = format!("kubernetes_feature_enabled{{name=\"CoordinatedLeaderElection\",stage=\"BETA\"}} {on}");
        let metrics = http.get("/metrics").text();
        assert!(metrics.contains(&line), "{line} is missing in the metrics");
    }
}

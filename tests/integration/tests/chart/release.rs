//! The life of a release: real Helm on a cluster of ours, whose nodes simulate containers.

use oarlock_testkit::{Cluster, Ran};
use serde_json::Value;

use super::helm::Helm;

/// Values with which a release becomes ready on simulated nodes: claims of StatefulSets get no volumes yet, and containers of Jobs and of the test end at once.
const TRIAL: [&str; 6] = [
    "etcd.external.endpoints={https://etcd.example.org:2379}",
    "etcd.external.secret=etcd",
    "nats.enabled=false",
    "snapshots.enabled=false",
    "podAnnotations.sim\\.oarlock\\.dev/keys\\.exit-after=1ms",
    "podAnnotations.sim\\.oarlock\\.dev/test\\.exit-after=1ms",
];

/// Without values Helm takes those of the release before.
const UPGRADE: [&str; 2] = ["--no-hooks", "--reset-values"];

fn refused(ran: &Ran, texts: &[&str]) {
    assert_ne!(ran.code, 0, "{ran}");
    for text in texts {
        assert!(ran.err.contains(text), "{text:?} is missing in {}", ran.err);
    }
}

#[test]
fn a_change_that_would_lose_data_is_refused_before_it_is_applied() {
    let cluster = Cluster::api_only();
    let Some(helm) = Helm::of(cluster.kubeconfig()) else { return };
    let _ = helm.chart("install", "rel", &["etcd.persistence.storageClass=fast"], &["--no-hooks"]).ok();
    let upgrade = |values: &[&str]| helm.chart("upgrade", "rel", values, &UPGRADE);
    let fast = "etcd.persistence.storageClass=fast";
    refused(&upgrade(&[fast, "etcd.replicas=1"]), &["etcd.replicas", "3 members cannot become 1"]);
    refused(&upgrade(&[fast, "etcd.replicas=5"]), &["3 members cannot become 5", "More members of etcd"]);
    refused(&upgrade(&[fast, "etcd.persistence.enabled=false"]), &["etcd.persistence.enabled", "volumes"]);
    refused(
        &upgrade(&["etcd.persistence.storageClass=slow"]),
        &["etcd.persistence.storageClass", "\"fast\"", "\"slow\""],
    );
    refused(&upgrade(&[]), &["etcd.persistence.storageClass"]);
    refused(&upgrade(&[fast, "etcd.persistence.size=9Gi"]), &["etcd.persistence.size", "8Gi"]);
    refused(&upgrade(&["mode=scheduler-only", "scheduler.replicas=1"]), &["would remove the release's etcd"]);
    let external = ["etcd.external.endpoints={https://e:2379}", "etcd.external.secret=e"];
    refused(&upgrade(&external), &["would remove the release's etcd"]);
    // Nothing of this was applied, and what loses nothing is.
    let members = cluster.kubectl().ok("get statefulset rel-etcd -o jsonpath={.spec.replicas}");
    assert_eq!(members, "3");
    let _ = upgrade(&[fast, "etcd.replicas=5", "etcd.initialClusterState=existing"]).ok();
    let _ = upgrade(&[fast, "etcd.replicas=5", "etcd.initialClusterState=existing", "scheduler.replicas=4"]).ok();
    assert_eq!(cluster.kubectl().ok("get deployment rel-scheduler -o jsonpath={.spec.replicas}"), "4");
}

#[test]
fn members_without_volumes_do_not_get_empty_ones_and_one_alone_stays_alone() {
    let cluster = Cluster::api_only();
    let Some(helm) = Helm::of(cluster.kubeconfig()) else { return };
    let _ = helm.chart("install", "rel", &["etcd.persistence.enabled=false"], &["--no-hooks"]).ok();
    refused(&helm.chart("upgrade", "rel", &[], &UPGRADE), &["etcd.persistence.enabled", "no volumes"]);
    let _ = helm.chart("install", "one", &["etcd.replicas=1"], &["--no-hooks"]).ok();
    let three = ["etcd.replicas=3", "etcd.initialClusterState=existing"];
    refused(&helm.chart("upgrade", "one", &three, &UPGRADE), &["1 member cannot become 3", "majority"]);
}

/// Names of everything in the namespace that a release or its hooks have made.
fn left(cluster: &Cluster) -> String {
    let kinds = "deployments,statefulsets,services,configmaps,serviceaccounts,roles,rolebindings,jobs,cronjobs,poddisruptionbudgets,networkpolicies,pods,persistentvolumeclaims";
    cluster.kubectl().ok(&format!("get {kinds} -l app.kubernetes.io/name=oarlock -o name"))
}

#[test]
fn two_releases_in_one_namespace_live_and_leave_nothing() {
    let cluster = Cluster::up(&["--ephemeral"]);
    let Some(helm) = Helm::of(cluster.kubeconfig()) else { return };
    let kubectl = cluster.kubectl();
    kubectl.ok(
        "create secret generic etcd --from-literal=ca.crt=x --from-literal=client.crt=x --from-literal=client.key=x",
    );
    let waits = ["--wait", "--timeout", "300s"];
    // Simulated containers run no hook: what the hook does, this does.
    for release in ["one", "one-two"] {
        for part in ["apiserver", "controller-manager", "konnectivity-server", "scheduler", "user"] {
            kubectl.ok(&format!("create secret generic {release}-keys-{part} {}", files(&helm, release, part)));
        }
        let ran = helm.chart("install", release, &TRIAL, &waits).ok();
        assert!(
            ran.out.contains("STATUS: deployed") && ran.out.contains(&format!("{release}-apiserver.default.svc")),
            "{ran}"
        );
    }
    let _ = helm.run(&["test", "one"]).ok();
    let more = [TRIAL.as_slice(), &["scheduler.replicas=4"]].concat();
    let _ = helm.chart("upgrade", "one", &more, &waits).ok();
    kubectl.until("get deployment one-scheduler -o jsonpath={.status.readyReplicas}", |out| out == "4");
    assert_eq!(kubectl.ok("get deployment one-two-scheduler -o jsonpath={.spec.replicas}"), "2");
    let _ = helm.run(&["rollback", "one", "1", "--wait", "--timeout", "300s"]).ok();
    kubectl.until("get deployment one-scheduler -o jsonpath={.status.readyReplicas}", |out| out == "2");
    let listed: Value = serde_json::from_str(&helm.run(&["list", "-o", "json"]).ok().out).unwrap();
    assert!(listed.as_array().unwrap().iter().all(|release| release["status"] == "deployed"), "{listed}");
    for release in ["one", "one-two"] {
        let _ = helm.run(&["uninstall", release, "--wait"]).ok();
    }
    oarlock_testkit::wait::eventually("everything is gone", || match left(&cluster) {
        none if none.trim().is_empty() => Ok(()),
        left => Err(left),
    });
}

/// Returns flags of kubectl for a Secret with each file that pods of a release mount from a part's Secret.
fn files(helm: &Helm, release: &str, part: &str) -> String {
    let objects = helm.template(release, &TRIAL, &[]);
    let secret = format!("{release}-keys-{part}");
    let pods = super::rules::pods(&objects);
    let volumes = pods.iter().flat_map(|pod| super::rules::items(&pod.spec["volumes"]));
    let volume = volumes.into_iter().find(|volume| volume["secret"]["secretName"] == secret.as_str()).unwrap();
    let keys = super::rules::items(&volume["secret"]["items"])
        .map(|item| format!("--from-literal={}=x", item["key"].as_str().unwrap()));
    keys.collect::<Vec<_>>().join(" ")
}

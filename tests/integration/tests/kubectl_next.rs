//! kubectl of the served API level (the machine's own is older): its waits and rollouts list by watching (WatchList), its streams are WebSockets.

use oarlock_testkit::{Cluster, Kubectl};

#[test]
fn waits_and_rollouts_that_list_by_watching() {
    let Some(bin) = crate::swaps::programs(&["kubectl"]) else { return };
    let cluster = Cluster::up(&["--ephemeral"]);
    let kubectl = Kubectl::of(&bin.join("kubectl"), &cluster.kubeconfig());
    kubectl.run("version").says(["Client Version: v1.35.", "Server Version: v1.35."]);
    crate::swaps::story::tell(&kubectl);
    kubectl.ok("create deployment next --image=registry.k8s.io/pause:3.10 --replicas=2");
    kubectl.ok("wait --for=condition=Available deployment/next --timeout=60s");
    kubectl.ok("wait --for=jsonpath={.status.readyReplicas}=2 deployment/next --timeout=60s");
    kubectl.ok("wait --for=create configmap/kube-root-ca.crt --timeout=60s");
    kubectl.ok("delete deployment next --wait=false");
    kubectl.ok("wait --for=delete pod --selector=app=next --timeout=60s");
    kubectl.run("wait --for=condition=Ready node/nobody --timeout=1s").fails("\"nobody\" not found");
}

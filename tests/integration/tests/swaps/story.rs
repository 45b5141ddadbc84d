//! The checks that every swap must pass.

use oarlock_testkit::Kubectl;

/// A Deployment of three runs, scales, rolls, rolls back, is reached through a Service and is deleted.
pub(crate) fn tell(kubectl: &Kubectl) {
    kubectl.ok("create deployment web --image=registry.k8s.io/pause:3.10 --replicas=3");
    rolled_out(kubectl);
    running(kubectl, 3);
    kubectl.ok("expose deployment web --port=80");
    endpoints(kubectl, 3);
    kubectl.ok("scale deployment web --replicas=5");
    rolled_out(kubectl);
    running(kubectl, 5);
    endpoints(kubectl, 5);
    kubectl.ok("set image deployment web pause=registry.k8s.io/pause:3.9");
    rolled_out(kubectl);
    kubectl.until("get replicasets -o jsonpath={.items[*].status.readyReplicas}", |out| out.trim() == "5");
    kubectl.ok("rollout undo deployment web");
    rolled_out(kubectl);
    let image = "get pods -o jsonpath={.items[*].spec.containers[0].image}";
    kubectl.until(image, |out| out.split_whitespace().count() == 5 && !out.contains(":3.9"));
    kubectl.ok("delete deployment web");
    kubectl.until("get pods,replicasets -o name", |out| out.trim().is_empty());
    kubectl.ok("delete service web");
    kubectl.until("get endpointslices -l kubernetes.io/service-name=web -o name", |out| out.trim().is_empty());
}

/// Whether a Lease in kube-system has a holder.
pub(super) fn leads(kubectl: &Kubectl, name: &str) {
    let line = format!("get lease {name} -n kube-system -o jsonpath={{.spec.holderIdentity}}");
    kubectl.until(&line, |holder| !holder.trim().is_empty());
}

fn rolled_out(kubectl: &Kubectl) {
    kubectl.ok("rollout status deployment web --timeout=120s");
}

fn running(kubectl: &Kubectl, count: usize) {
    let line = "get pods -o jsonpath={.items[*].status.phase}";
    kubectl.until(line, |out| out.split_whitespace().filter(|phase| *phase == "Running").count() == count);
}

fn endpoints(kubectl: &Kubectl, count: usize) {
    let line = "get endpointslices -l kubernetes.io/service-name=web -o jsonpath={.items[*].endpoints[*].addresses[0]}";
    kubectl.until(line, |out| out.split_whitespace().count() == count);
}

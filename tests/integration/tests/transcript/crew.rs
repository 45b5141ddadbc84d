//! Commands whose outcome is the work of controllers, scheduler and kubelets: two simulated nodes.

use oarlock_testkit::{Cluster, Kubectl};

/// The deadline of kubectl's own waits, which bounds a hang.
pub(super) const WAIT: &str = "--timeout=90s";

/// `kubectl wait` fails for what is not there yet, and `up` does not wait for its nodes to register.
pub(super) fn await_nodes(kubectl: &Kubectl) {
    kubectl.until_says("get nodes -o name", ["node/node-0", "node/node-1"]);
    kubectl
        .run(&format!("wait --for=condition=Ready node --all {WAIT}"))
        .says(["node/node-0 condition met", "node/node-1 condition met"]);
    kubectl.until_says("get serviceaccount default -o name", ["serviceaccount/default"]);
}

#[test]
fn a_deployment_lives_its_life() {
    let cluster = Cluster::up(&["--ephemeral"]);
    let kubectl = cluster.kubectl();
    await_nodes(&kubectl);
    kubectl.run("get nodes -o wide").says(["node-0   Ready", "node-1   Ready", "v1.35.", "sim://"]);
    kubectl
        .run("create deployment web --image=registry.k8s.io/pause:3.10 --replicas=3 --port=80")
        .is("deployment.apps/web created");
    kubectl.run(&format!("rollout status deployment/web {WAIT}")).says(["deployment \"web\" successfully rolled out"]);
    kubectl.run("get deployment web --no-headers").says(["web   3/3   3     3 "]);
    kubectl.run("get deploy,rs,pods -o wide").says([
        "deployment.apps/web",
        "replicaset.apps/web-",
        "pod/web-",
        "1/1     Running",
        "node-0",
        "node-1",
    ]);
    kubectl.run("scale deploy/web --replicas=10").is("deployment.apps/web scaled");
    kubectl.run(&format!("rollout status deploy/web {WAIT}")).says(["successfully rolled out"]);
    kubectl
        .run(&format!("wait --for=jsonpath={{.status.availableReplicas}}=10 deploy/web {WAIT}"))
        .is("deployment.apps/web condition met");
    kubectl.run("set image deploy/web pause=registry.k8s.io/pause:3.9").is("deployment.apps/web image updated");
    kubectl.run(&format!("rollout status deploy/web {WAIT}")).says(["successfully rolled out"]);
    kubectl.run("rollout history deploy/web").says(["REVISION  CHANGE-CAUSE\n1         <none>\n2         <none>"]);
    kubectl.run("rollout history deploy/web --revision=2").says(["with revision #2", "registry.k8s.io/pause:3.9"]);
    kubectl.run("rollout undo deploy/web").is("deployment.apps/web rolled back");
    kubectl.run(&format!("rollout status deploy/web {WAIT}")).says(["successfully rolled out"]);
    kubectl
        .run("get deploy web -o jsonpath={.spec.template.spec.containers[0].image}")
        .is("registry.k8s.io/pause:3.10");
    kubectl.run("rollout history deploy/web").says(["\n2         <none>\n3         <none>"]);
    kubectl.run("rollout pause deploy/web").is("deployment.apps/web paused");
    kubectl
        .run("rollout undo deploy/web")
        .fails("cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again");
    kubectl.run("rollout resume deploy/web").is("deployment.apps/web resumed");
    kubectl.run("rollout restart deploy/web").is("deployment.apps/web restarted");
    kubectl.run(&format!("rollout status deploy/web {WAIT}")).says(["successfully rolled out"]);
    kubectl.run("describe deploy web").says([
        "10 desired | 10 updated | 10 total | 10 available | 0 unavailable",
        "kubectl.kubernetes.io/restartedAt",
        "Scaled up replica set",
    ]);
    kubectl.run("expose deploy/web --port=80 --target-port=8080").is("service/web exposed");
    kubectl.until("get endpoints web --no-headers", |out| out.contains(":8080") && out.contains("more"));
    kubectl.run("describe service web").says(["TargetPort:               8080/TCP", "Endpoints:"]);
    kubectl.until_says("get endpointslices -l kubernetes.io/service-name=web --no-headers", ["IPv4", "8080"]);
    kubectl
        .run("get events --field-selector reason=ScalingReplicaSet")
        .says(["deployment/web", "Scaled up replica set web-"]);
    kubectl.run("events --for deployment/web").says(["ScalingReplicaSet"]);
    kubectl.run(&format!("delete deployment web {WAIT}")).is("deployment.apps \"web\" deleted");
    kubectl.until("get rs,pods -o name", |out| out.trim().is_empty());
}

#[test]
fn a_pod_is_run_read_and_removed() {
    let cluster = Cluster::up(&["--ephemeral"]);
    let kubectl = cluster.kubectl();
    await_nodes(&kubectl);
    kubectl.run("run one --image=nginx --labels=app=one --env=MODE=test").is("pod/one created");
    kubectl.run(&format!("wait --for=condition=Ready pod/one {WAIT}")).is("pod/one condition met");
    kubectl.run("get pod one -o wide --no-headers").says(["one   1/1   Running   0", "node-"]);
    // The recorder writes Events some time after the change.
    let texts = [
        "Status:           Running",
        "Successfully assigned default/one to node-",
        "Container started",
        "MODE:  test",
        "kube-api-access-",
    ];
    kubectl.until_says("describe pod one", texts);
    kubectl.ok("logs one");
    kubectl.run("logs one -c other").fails("container other is not valid for pod one");
    kubectl.run("get pods --field-selector status.phase=Running -o name").is("pod/one");
    kubectl.run("get pod one -o jsonpath={.status.qosClass}").is("BestEffort");
    kubectl
        .run("patch pod one -p '{\"spec\":{\"nodeName\":\"elsewhere\"}}'")
        .fails("pod updates may not change fields other than");
    kubectl.run(&format!("delete pod one {WAIT}")).is("pod \"one\" deleted");
    kubectl.run("get pod one").fails("Error from server (NotFound): pods \"one\" not found");
    // The pod requests more than any node has: it stays pending, and an Event gives the reason.
    kubectl.ok("run big --image=nginx --overrides='{\"spec\":{\"containers\":[{\"name\":\"big\",\"image\":\"nginx\",\"resources\":{\"requests\":{\"cpu\":\"4000\"}}}]}}'");
    kubectl.until("get events --field-selector involvedObject.name=big,reason=FailedScheduling", |out| {
        out.contains("0/2 nodes are available: 2 Insufficient cpu.")
    });
    kubectl.run("get pod big --no-headers").says(["0/1", "Pending"]);
    kubectl.run("delete pod big --now").is("pod \"big\" deleted");
}

#[test]
fn nodes_are_cordoned_tainted_and_drained() {
    let cluster = Cluster::up(&["--ephemeral"]);
    let kubectl = cluster.kubectl();
    await_nodes(&kubectl);
    kubectl.run("label node node-1 disk=ssd").is("node/node-1 labeled");
    kubectl.run("taint nodes node-0 key=value:NoSchedule").is("node/node-0 tainted");
    kubectl
        .run("taint nodes node-0 key=value:NoSchedule")
        .fails("already has key taint(s) with same effect(s) and --overwrite is false");
    kubectl.ok("create deployment web --image=nginx --replicas=3");
    kubectl.run(&format!("rollout status deploy/web {WAIT}")).says(["successfully rolled out"]);
    let places = "get pods -l app=web -o 'jsonpath={range .items[*]}{.spec.nodeName} {end}'";
    kubectl.run(places).is("node-1 node-1 node-1");
    kubectl.run("taint nodes node-0 key-").is("node/node-0 untainted");
    kubectl.run("cordon node-1").is("node/node-1 cordoned");
    kubectl.run("get node node-1 --no-headers").says(["Ready,SchedulingDisabled"]);
    kubectl.run(&format!("drain node-1 --ignore-daemonsets {WAIT}")).says([
        "node/node-1 already cordoned",
        "evicting pod default/web-",
        "node/node-1 drained",
    ]);
    kubectl.run(&format!("rollout status deploy/web {WAIT}")).says(["successfully rolled out"]);
    kubectl.until(places, |out| out.trim() == "node-0 node-0 node-0");
    kubectl.run("uncordon node-1").is("node/node-1 uncordoned");
    kubectl.run("describe node node-0").says([
        "Non-terminated Pods:",
        "default                     web-",
        "Taints:             <none>",
        "Allocatable:",
    ]);
    // All objects in a namespace are deleted with it.
    kubectl.ok("create namespace team");
    kubectl.ok("create configmap left -n team");
    kubectl.run(&format!("delete namespace team {WAIT}")).is("namespace \"team\" deleted");
    kubectl.run("get configmap left -n team").fails("not found");
}

#[test]
fn what_an_owner_leaves_behind_is_up_to_its_deletion() {
    let cluster = Cluster::up(&["--ephemeral"]);
    let kubectl = cluster.kubectl();
    kubectl.until("get serviceaccount default -o name", |out| out.contains("serviceaccount/default"));
    kubectl.ok("create deployment web --image=nginx --replicas=2");
    kubectl.run(&format!("rollout status deploy/web {WAIT}")).says(["successfully rolled out"]);
    kubectl.run(&format!("delete deployment web --cascade=orphan {WAIT}")).is("deployment.apps \"web\" deleted");
    // The ReplicaSet has no owner any more and keeps its pods.
    kubectl.run("get rs -o jsonpath={.items[*].metadata.ownerReferences}").is("");
    kubectl.run("get rs -l app=web --no-headers").says(["web-", "   2     2     2 "]);
    kubectl.ok("delete pods -l app=web --now");
    kubectl.until("get rs -l app=web -o jsonpath={.items[0].status.readyReplicas}", |out| out == "2");
    let set = kubectl.ok("get rs -l app=web -o name");
    kubectl
        .run(&format!("delete {} --cascade=foreground {WAIT}", set.trim()))
        .says(["replicaset.apps \"web-", "deleted"]);
    // With foreground deletion the dependents were deleted first.
    kubectl.run("get pods -l app=web -o name").is("");
}

//! A kube-rs program inside a pod, with no configuration but what every pod has.

use super::machine::Machine;
use super::{apply, images, phase, pod, settled, until};

const IMAGE: &str = "localhost/in-cluster:1";

#[test]
fn a_kube_rs_program_in_a_pod_finds_its_cluster_by_itself() {
    let Some(machine) = Machine::start() else { return };
    machine.import(IMAGE, &oarlock_testkit::example("in_cluster"));
    let cluster = machine.cluster_with(&["--bind=0.0.0.0", &format!("--advertise-address={}", machine.host())]);
    let kubectl = settled(&cluster);
    let server = kubectl.ok("config view -o jsonpath={.clusters[0].cluster.server}");
    let ip = kubectl.ok("get service kubernetes -o jsonpath={.spec.clusterIP}");
    machine.serve(ip.trim(), server.trim().rsplit(':').next().unwrap());
    let runs = |name: &str| {
        let text = pod(name, "", "", "  restartPolicy: Never");
        let own = text.replace(images::BUSYBOX, IMAGE).replace("    command: [sh, -c, \"\"]\n", "");
        apply(&kubectl, &own);
    };
    // The pod's ServiceAccount has no permission yet.
    runs("stranger");
    until(&kubectl, "stranger", phase("Failed"));
    kubectl.until_says(
        "logs stranger",
        ["server v1.35.", "system:serviceaccount:default:default", "cannot list resource"],
    );
    kubectl.ok("create rolebinding looks --clusterrole=view --serviceaccount=default:default");
    runs("friend");
    until(&kubectl, "friend", phase("Succeeded"));
    kubectl.until_says("logs friend", ["server v1.35.", "pod friend\n", "pod stranger\n"]);
    kubectl.ok("delete pod --all --wait");
    machine.until_clean();
}

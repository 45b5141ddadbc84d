//! Commands about Jobs that complete, are suspended, fail or are cleaned up.

use oarlock_testkit::{Cluster, Kubectl};

use super::crew::{WAIT, await_nodes};
use crate::swaps::jobs;

/// `kubectl create job`, with a word on how the simulated container ends.
fn create(kubectl: &Kubectl, words: &str, annotation: &str, value: &str) {
    let job = kubectl.ok(&format!("create job --dry-run=client -o json {words}"));
    let patch = format!(
        "{{\"spec\":{{\"template\":{{\"metadata\":{{\"annotations\":{{\"sim.oarlock.dev/{annotation}\":\"{value}\"}}}}}}}}}}"
    );
    let job = kubectl.run_with(&format!("patch --local -f - --type=merge -p '{patch}' -o json"), &job).ok().out;
    kubectl.run_with("create -f -", &job).says([" created"]);
}

#[test]
fn a_job_lives_its_life() {
    let cluster = Cluster::up(&["--ephemeral"]);
    let kubectl = cluster.kubectl();
    await_nodes(&kubectl);
    create(&kubectl, "once --image=busybox -- true", "exit-after", "100ms");
    kubectl.run(&format!("wait --for=condition=complete job/once {WAIT}")).is("job.batch/once condition met");
    kubectl.run("get job once --no-headers").says(["once   Complete   1/1"]);
    kubectl.run("get pods -l job-name=once --no-headers").says(["once-", "0/1   Completed"]);
    kubectl.ok("logs job/once");
    kubectl.until_says(
        "describe job once",
        [
            "Pods Statuses:    0 Active (0 Ready) / 1 Succeeded / 0 Failed",
            "SuccessfulCreate",
            "Created pod: once-",
            "Completed",
            "Job completed",
        ],
    );
    create(&kubectl, "never --image=busybox -- false", "exit-code", "1");
    kubectl.run("patch job never -p '{\"spec\":{\"backoffLimit\":1}}'").is("job.batch/never patched");
    kubectl.run(&format!("wait --for=condition=failed job/never {WAIT}")).is("job.batch/never condition met");
    kubectl.until_says("describe job never", ["0 Active (0 Ready) / 0 Succeeded / 2 Failed", "BackoffLimitExceeded"]);
    kubectl.ok("create job works --image=busybox");
    kubectl.until("get job works -o jsonpath={.status.ready}", |ready| ready.trim() == "1");
    kubectl.run("patch job works -p '{\"spec\":{\"suspend\":true}}'").is("job.batch/works patched");
    kubectl.run(&format!("wait --for=condition=suspended job/works {WAIT}")).is("job.batch/works condition met");
    kubectl.until("get pods -l job-name=works -o name", |out| out.trim().is_empty());
    kubectl.run("get job works --no-headers").says(["works   Suspended   0/1"]);
    kubectl.run("patch job works -p '{\"spec\":{\"suspend\":false}}'").is("job.batch/works patched");
    kubectl.until("get job works -o jsonpath={.status.ready}", |ready| ready.trim() == "1");
    // With `--cascade=orphan` a deleted Job leaves its pods, and none of them keeps a finalizer.
    kubectl.run("delete job works --cascade=orphan").says(["job.batch \"works\" deleted"]);
    let kept =
        "get pods -l job-name=works -o jsonpath={.items[0].metadata.ownerReferences}{.items[0].metadata.finalizers}";
    kubectl.until(kept, |out| out.trim().is_empty());
    kubectl.run(&format!("delete pods -l job-name=works {WAIT}")).says(["deleted"]);
    kubectl.run("patch job once -p '{\"spec\":{\"ttlSecondsAfterFinished\":1}}'").is("job.batch/once patched");
    kubectl.ok(&format!("wait --for=delete job/once {WAIT}"));
    kubectl.until("get pods -l job-name=once -o name", |out| out.trim().is_empty());
    kubectl.run(&format!("delete job never {WAIT}")).says(["job.batch \"never\" deleted"]);
    kubectl.until("get jobs,pods -o name", |out| out.trim().is_empty());
}

#[test]
fn every_kind_of_job_ends_as_it_must() {
    let cluster = Cluster::up(&["--ephemeral"]);
    let kubectl = cluster.kubectl();
    await_nodes(&kubectl);
    jobs::tell(&kubectl);
}

//! Jobs of every kind, and the status with which each must end. The expectations hold for upstream's controller and for Oarlock's.
//!
//! Pods are simulated (`docs/guides/simulated-nodes.md`): annotations say how their containers end.

use oarlock_testkit::Kubectl;
use serde_json::{Value, json};

/// A Job, its first state, and its final status.
struct Case {
    name: &'static str,
    /// `spec` but for the template.
    spec: Value,
    restart: &'static str,
    /// The script of the simulated container; empty for a container that runs until it is stopped.
    does: Value,
    ends: Value,
}

fn case(name: &'static str, spec: Value, does: Value, ends: Value) -> Case {
    Case { name, spec, restart: "Never", does, ends }
}

fn succeeds() -> Value {
    json!({"sim.oarlock.dev/exit-after": "500ms"})
}

fn exits(code: u8) -> Value {
    json!({"sim.oarlock.dev/exit-code": code.to_string()})
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

/// Returns the status of a finished Job.
fn ended(kinds: [&str; 2], reason: &str, message: &str, mut counts: Value) -> Value {
    let conditions = kinds.map(|kind| condition(kind, "True", reason, message));
    counts["conditions"] = Value::from(conditions.to_vec());
    counts["ready"] = 0.into();
    counts["terminating"] = 0.into();
    counts["uncountedTerminatedPods"] = json!({});
    counts
}

fn complete(counts: Value) -> Value {
    let message = "Reached expected number of succeeded pods";
    ended(["SuccessCriteriaMet", "Complete"], "CompletionsReached", message, counts)
}

fn failed(reason: &str, message: &str, counts: Value) -> Value {
    ended(["FailureTarget", "Failed"], reason, message, counts)
}

fn cases() -> Vec<Case> {
    let too_often = "Job has reached the specified backoff limit";
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    let by_rule =
        "Container main for pod default/by-rule-POD failed with exit code 42 matching FailJob rule at index 0";
    let one_of_two = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 1,
        "successPolicy": {"rules": [{"succeededCount": 1}]}});
    let met = ["SuccessCriteriaMet", "Complete"];
    vec![
        case("plain", json!({"completions": 3, "parallelism": 2}), succeeds(), complete(json!({"succeeded": 3}))),
        case("queue", json!({"parallelism": 2}), succeeds(), complete(json!({"succeeded": 2}))),
        case(
            "indexed",
            json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4}),
            succeeds(),
            complete(json!({"succeeded": 4, "completedIndexes": "0-3"})),
        ),
        case(
            "enough",
            one_of_two,
            succeeds(),
            ended(met, "SuccessPolicy", "Matched rules at index 0", json!({"succeeded": 1, "completedIndexes": "0"})),
        ),
        case(
            "too-often",
            json!({"backoffLimit": 0}),
            exits(3),
            failed("BackoffLimitExceeded", too_often, json!({"failed": 1})),
        ),
        Case {
            restart: "OnFailure",
            ..case(
                "restarted",
                json!({"backoffLimit": 1}),
                exits(3),
                failed("BackoffLimitExceeded", too_often, json!({"failed": 1})),
            )
        },
        case(
            "no-index",
            json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0}),
            exits(3),
            failed("FailedIndexes", "Job has failed indexes", json!({"failed": 3, "failedIndexes": "0-2"})),
        ),
        case(
            "by-rule",
            json!({"podFailurePolicy": {"rules": [rule]}}),
            exits(42),
            failed("PodFailurePolicy", by_rule, json!({"failed": 1})),
        ),
        case(
            "too-long",
            json!({"activeDeadlineSeconds": 1}),
            json!({}),
            failed("DeadlineExceeded", "Job was active longer than specified deadline", json!({"failed": 1})),
        ),
        case("others", json!({"managedBy": "example.com/other"}), succeeds(), json!({})),
        case("later", json!({"suspend": true}), succeeds(), suspended()),
    ]
}

fn suspended() -> Value {
    let condition = condition("Suspended", "True", "JobSuspended", "Job suspended");
    json!({"conditions": [condition], "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}})
}

fn manifest(case: &Case) -> String {
    let container = json!({"name": "main", "image": "registry.k8s.io/pause:3.10"});
    let mut spec = case.spec.clone();
    spec["template"] = json!({
        "metadata": {"annotations": case.does},
        "spec": {"restartPolicy": case.restart, "terminationGracePeriodSeconds": 1, "containers": [container]},
    });
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": case.name}, "spec": spec}).to_string()
}

/// A status without times, and without what is random in the names of pods.
fn status(kubectl: &Kubectl, name: &str) -> Value {
    let job: Value = serde_json::from_str(&kubectl.ok(&format!("get job {name} -o json"))).unwrap();
    let mut status = job["status"].clone();
    for time in ["startTime", "completionTime"] {
        status.as_object_mut().unwrap().remove(time);
    }
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        for time in ["lastProbeTime", "lastTransitionTime"] {
            condition.as_object_mut().unwrap().remove(time);
        }
        let message = condition["message"].as_str().unwrap();
        let words = message.split(' ').map(|word| match word.rsplit_once('-') {
            Some((pod, _)) if pod.ends_with(name) => format!("{pod}-POD"),
            _ => word.to_owned(),
        });
        condition["message"] = words.collect::<Vec<_>>().join(" ").into();
    }
    status
}

fn until(kubectl: &Kubectl, name: &str, wanted: &Value) {
    oarlock_testkit::wait::eventually(&format!("{name} says {wanted}"), || {
        let status = status(kubectl, name);
        if status == *wanted { Ok(()) } else { Err(status) }
    });
}

/// Runs a Job of every kind to its end, and deletes it with its pods.
pub(crate) fn tell(kubectl: &Kubectl) {
    let cases = cases();
    for case in &cases {
        kubectl.run_with("create -f -", &manifest(case)).is(&format!("job.batch/{} created", case.name));
    }
    for case in &cases {
        until(kubectl, case.name, &case.ends);
    }
    for (name, pods) in [("plain", 3), ("indexed", 4), ("too-often", 1), ("others", 0), ("later", 0)] {
        let line = format!("get pods -l batch.kubernetes.io/job-name={name} -o name");
        assert_eq!(kubectl.ok(&line).lines().count(), pods, "{name}");
    }
    kubectl.ok("patch job later -p '{\"spec\":{\"suspend\":false}}'");
    let mut resumed = complete(json!({"succeeded": 1}));
    let condition = condition("Suspended", "False", "JobResumed", "Job resumed");
    resumed["conditions"].as_array_mut().unwrap().insert(0, condition);
    until(kubectl, "later", &resumed);
    let line = "get pods -l batch.kubernetes.io/job-completion-index=2 -o jsonpath='{range .items[*]}{.spec.hostname} \
                {.spec.containers[0].env[0].name} {.metadata.annotations.batch\\.kubernetes\\.io/job-completion-index};{end}'";
    kubectl.until_says(line, ["indexed-2 JOB_COMPLETION_INDEX 2;", "no-index-2 JOB_COMPLETION_INDEX 2;"]);
    // The pods of a Job that finishes, or that is deleted while it runs, keep no finalizer.
    kubectl.ok("create job works --image=registry.k8s.io/pause:3.10");
    kubectl.until("get job works -o jsonpath={.status.active}", |active| active.trim() == "1");
    kubectl.ok("delete jobs --all");
    kubectl.until("get jobs,pods -o name", |out| out.trim().is_empty());
}

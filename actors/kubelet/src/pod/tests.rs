//! Tests of the pod state machine: events in, steps out.

use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::Item;
use oarlock_meta::Revision;
use oarlock_runtime::clock;
use serde_json::{Value, json};

use super::*;
use crate::cri::{ContainerState, ContainerStatus, Error};
use crate::testing;

struct Bench {
    pod: Pod,
    now: Now,
    told: Vec<PodEvent>,
}

fn item(change: &Value) -> Arc<Item<PodView>> {
    let object = testing::pod("web", change).to_string();
    let obj = oarlock_client::decode(testing::core("pods").ty, object.as_bytes()).unwrap();
    Arc::new(Item::of(&obj, Revision(1)))
}

impl Bench {
    fn new(change: &Value) -> Self {
        let now = Now { at: clock::now(), wall: 1_800_000_000 };
        let item = item(change);
        let seen = item.value.seen.lock().take();
        Self { pod: Pod::new(item, seen.as_deref(), false, now), now, told: Vec::new() }
    }

    fn next(&mut self) -> Next {
        self.pod.advance(self.now, &mut self.told)
    }

    fn pass(&mut self, seconds: u64) {
        self.now.at += Duration::from_secs(seconds);
        self.now.wall += i64::try_from(seconds).unwrap();
    }

    fn sandbox(&mut self) {
        assert_eq!(self.next().step, Some(Step::Sandbox));
        let ip = "10.0.0.7".parse().unwrap();
        self.pod.sandboxed(Ok(("s".into(), vec![ip])), &[], "192.0.2.1", self.now);
    }

    fn container(&self, index: usize, state: ContainerState, code: i32) -> ContainerStatus {
        ContainerStatus {
            id: format!("c{index}-{}", self.pod.containers[index].restarts).into(),
            name: "main".into(),
            attempt: self.pod.containers[index].restarts,
            state,
            started_at: self.now.wall,
            finished_at: self.now.wall,
            exit_code: code,
            reason: Str::default(),
            message: Str::default(),
            image_ref: Str::default(),
            ready: None,
        }
    }

    fn start(&mut self, index: usize) {
        assert_eq!(self.next().step, Some(Step::Start(index)));
        let end = Ok(self.container(index, ContainerState::Running, 0));
        self.pod.began(StartReport { index, image_id: Some("i".into()), end }, self.now);
    }

    fn exit(&mut self, index: usize, code: i32) {
        let status = self.container(index, ContainerState::Exited, code);
        let told = self.pod.observe(index, &status, self.now);
        self.told.extend(told);
    }

    fn status(&mut self) -> Value {
        let host = Host { ip: "192.0.2.1", runtime: "sim" };
        let (patch, _) = self.pod.status(host, self.now);
        serde_json::from_slice::<Value>(&patch).unwrap()["status"].take()
    }

    fn phase(&mut self) -> String {
        self.status()["phase"].as_str().unwrap().to_owned()
    }
}

fn two(policy: &str) -> Value {
    json!({"spec": {"restartPolicy": policy, "containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:1"}]}})
}

#[test]
fn phases_follow_from_the_containers() {
    // Restart policy, exit codes of both containers (`None`: running), the phase.
    let cases: &[(&str, [Option<i32>; 2], &str)] = &[
        ("Always", [None, None], "Running"),
        ("Always", [Some(0), None], "Running"),
        ("Always", [Some(1), Some(1)], "Running"),
        ("OnFailure", [Some(0), Some(1)], "Running"),
        ("OnFailure", [Some(0), Some(0)], "Succeeded"),
        ("Never", [Some(0), None], "Running"),
        ("Never", [Some(1), None], "Running"),
        ("Never", [Some(0), Some(0)], "Succeeded"),
        ("Never", [Some(0), Some(1)], "Failed"),
    ];
    for (policy, codes, wanted) in cases {
        let mut bench = Bench::new(&two(policy));
        bench.sandbox();
        assert_eq!(bench.phase(), "Pending");
        bench.start(0);
        assert_eq!(bench.phase(), "Pending", "one has not been started yet");
        bench.start(1);
        for (index, code) in codes.iter().enumerate() {
            if let Some(code) = code {
                bench.exit(index, *code);
            }
        }
        assert_eq!(bench.phase(), *wanted, "{policy} {codes:?}");
    }
}

#[test]
fn one_step_at_a_time() {
    let mut bench = Bench::new(&two("Always"));
    assert_eq!(bench.next().step, Some(Step::Sandbox));
    assert_eq!(bench.next(), Next::default(), "the sandbox is under way");
    let told = bench.pod.sandboxed(Err(vec![("FailedCreatePodSandBox", "no".into())]), &[], "", bench.now);
    assert_eq!((told[0].reason.as_str(), told[0].message.as_str()), ("FailedCreatePodSandBox", "no"));
    let again = bench.now.at + Duration::from_secs(10);
    assert_eq!(bench.next(), Next { wake: Some(again), ..Next::default() });
    bench.pass(10);
    bench.sandbox();
    bench.start(0);
    bench.start(1);
    assert_eq!(bench.next(), Next::default(), "all runs");
}

#[test]
fn back_off_is_forgiven_after_ten_minutes() {
    let mut bench = Bench::new(&json!({}));
    bench.sandbox();
    bench.start(0);
    bench.exit(0, 1);
    bench.start(0);
    bench.exit(0, 1);
    assert_eq!(bench.next().wake, Some(bench.now.at + Duration::from_secs(10)));
    assert_eq!(bench.told.last().map(|tell| tell.reason.as_str()), Some("BackOff"));
    bench.pass(10);
    bench.start(0);
    bench.pass(700);
    bench.exit(0, 1);
    bench.start(0);
    assert_eq!(bench.pod.containers[0].restarts, 3);
}

#[test]
fn the_longest_back_off_is_five_minutes() {
    let mut bench = Bench::new(&json!({}));
    bench.sandbox();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        bench.start(0);
        bench.exit(0, 1);
        if let Some(container) = bench.pod.containers.first()
            && let Some(hold) = container.hold
        {
            pauses.push((hold - bench.now.at).as_secs());
            bench.pass(*pauses.last().unwrap());
        }
    }
    assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300, 300]);
}

#[test]
fn conditions_keep_their_time_until_they_flip() {
    let mut bench = Bench::new(&json!({}));
    let first = bench.status();
    bench.pass(5);
    bench.sandbox();
    bench.start(0);
    let second = bench.status();
    let time = |status: &Value, at: usize| status["conditions"][at]["lastTransitionTime"].clone();
    assert_eq!(time(&first, 1), time(&second, 1), "Initialized held from the beginning");
    assert_ne!(time(&first, 2), time(&second, 2), "Ready flipped");
    assert_eq!(second["conditions"][2]["reason"], Value::Null, "the old reason is taken away");
    assert_eq!(second["startTime"], first["startTime"]);
    // The scheduler's condition stays, with this generation.
    let scheduled = &second["conditions"][4];
    assert_eq!(time(&second, 4), "2026-01-01T00:00:00Z");
    assert_eq!((&scheduled["status"], &scheduled["observedGeneration"]), (&json!("True"), &json!(1)));
}

#[test]
fn a_pod_that_is_here_has_its_node_whoever_says_otherwise() {
    let late = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Unschedulable", "message": "too late"}]}});
    let mut bench = Bench::new(&late);
    let scheduled = bench.status()["conditions"][4].clone();
    assert_eq!((&scheduled["type"], &scheduled["status"]), (&json!("PodScheduled"), &json!("True")));
    assert_eq!((&scheduled["reason"], &scheduled["message"]), (&Value::Null, &Value::Null));
    assert_ne!(scheduled["lastTransitionTime"], "2026-01-01T00:00:00Z");
}

#[test]
fn an_equal_state_has_an_equal_fingerprint() {
    let mut bench = Bench::new(&json!({}));
    bench.sandbox();
    let host = Host { ip: "192.0.2.1", runtime: "sim" };
    let (_, one) = bench.pod.status(host, bench.now);
    bench.pass(100);
    let (_, two) = bench.pod.status(host, bench.now);
    assert_eq!(one, two, "time alone is no change");
    bench.start(0);
    let (_, three) = bench.pod.status(host, bench.now);
    assert_ne!(two, three);
}

#[test]
fn what_is_being_deleted_is_stopped_with_the_grace_of_the_deletion() {
    let mut bench = Bench::new(&json!({}));
    bench.sandbox();
    assert_eq!(bench.next().step, Some(Step::Start(0)));
    let deleting = |grace: i64| {
        item(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}}))
    };
    bench.pod.take(deleting(20));
    let next = bench.next();
    assert_eq!((next.interrupt, next.step), (true, Some(Step::Stop(20))), "starts are given up");
    assert_eq!(bench.next(), Next::default());
    bench.pod.take(deleting(5));
    let next = bench.next();
    assert_eq!((next.interrupt, next.step), (true, Some(Step::Stop(5))), "shorter counts");
    bench.pod.take(deleting(25));
    assert_eq!(bench.next(), Next::default(), "longer does not");
    bench.pod.stopped(Ok(Vec::new()), bench.now);
    assert_eq!(bench.phase(), "Failed", "it never ran to its end");
    assert!(bench.pod.to_be_deleted());
    bench.pod.gone = true;
    assert_eq!(bench.next().step, Some(Step::Clean));
}

#[test]
fn the_state_in_the_api_is_taken_over() {
    let status = json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "podIP": "10.0.0.9",
    "containerStatuses": [{"name": "main", "image": "nginx:1", "imageID": "x", "containerID": "sim://abc", "ready": true,
        "restartCount": 4, "state": {"running": {"startedAt": "2026-01-01T00:00:10Z"}},
        "lastState": {"terminated": {"exitCode": 9, "containerID": "sim://old", "reason": "Error"}}}]}});
    let mut bench = Bench::new(&status);
    assert_eq!(bench.next().step, Some(Step::Recall));
    let running = ContainerStatus { id: "abc".into(), attempt: 4, ..bench.container(0, ContainerState::Running, 0) };
    let sandbox = Some(("s".into(), Vec::new()));
    let known = Recalled { sandbox: sandbox.clone(), attempts: 1, containers: vec![running] };
    bench.pod.recalled(Ok(known), "192.0.2.1", bench.now);
    assert_eq!(bench.next(), Next::default());
    let now = bench.status();
    assert_eq!(now["containerStatuses"][0]["restartCount"], 4);
    assert_eq!(now["containerStatuses"][0]["lastState"]["terminated"]["containerID"], "sim://old");
    assert_eq!((&now["podIP"], &now["startTime"]), (&json!("10.0.0.9"), &json!("2026-01-01T00:00:00Z")));
    // A runtime without the container: the container is lost and starts again.
    let mut lost = Bench::new(&status);
    assert_eq!(lost.next().step, Some(Step::Recall));
    lost.pod.recalled(Ok(Recalled::default()), "192.0.2.1", lost.now);
    let state = lost.status()["containerStatuses"][0]["state"]["terminated"].clone();
    assert_eq!((&state["exitCode"], &state["reason"]), (&json!(137), &json!("ContainerStatusUnknown")));
    lost.sandbox();
    lost.start(0);
    assert_eq!(lost.pod.containers[0].restarts, 5);
}

#[test]
fn what_outlives_the_kubelet_is_asked_before_the_api_is_believed() {
    // The kubelet was killed before its first status write.
    let item = item(&json!({}));
    let mut bench = Bench::new(&json!({}));
    bench.pod = Pod::new(item, None, true, bench.now);
    assert_eq!(bench.next().step, Some(Step::Recall));
    bench.pod.recalled(Err(Error::Failed("runtime is down".into())), "", bench.now);
    assert!(bench.next().wake.is_some(), "asked again, and nothing is begun meanwhile");
    bench.pass(10);
    assert_eq!(bench.next().step, Some(Step::Recall));
    let at = |attempt: u32, state, code| ContainerStatus {
        id: format!("r{attempt}").into(),
        attempt,
        image_ref: "docker.io/x@sha256:1".into(),
        ..bench.container(0, state, code)
    };
    let containers =
        vec![at(3, ContainerState::Created, 0), at(1, ContainerState::Exited, 9), at(2, ContainerState::Running, 0)];
    let killed = at(2, ContainerState::Exited, 137);
    let sandbox = Some(("s".into(), vec!["10.0.0.8".parse().unwrap()]));
    bench.pod.recalled(Ok(Recalled { sandbox, attempts: 2, containers }), "192.0.2.1", bench.now);
    assert_eq!(bench.next(), Next::default(), "it runs");
    let status = bench.status();
    let main = &status["containerStatuses"][0];
    assert_eq!((&status["podIP"], &main["containerID"]), (&json!("10.0.0.8"), &json!("sim://r2")));
    assert_eq!((&main["restartCount"], &main["imageID"]), (&json!(2), &json!("docker.io/x@sha256:1")));
    assert_eq!(main["lastState"]["terminated"]["exitCode"], 9);
    // After the end of the sandbox all containers are lost, and start again in a new sandbox.
    assert_eq!(bench.pod.sandbox_lost().unwrap().reason, "SandboxChanged");
    assert_eq!(bench.next().step, Some(Step::Sandbox));
    assert_eq!(bench.pod.sandbox_attempt(), 2);
    bench.pod.sandboxed(Ok(("t".into(), Vec::new())), &[killed], "192.0.2.1", bench.now);
    let state = bench.status()["containerStatuses"][0]["state"]["terminated"].clone();
    assert_eq!((&state["exitCode"], &state["reason"]), (&json!(137), &json!("Error")));
    assert_eq!(bench.next().step, Some(Step::Start(0)));
}

#[test]
fn what_is_over_stays_over() {
    let mut bench = Bench::new(&json!({"status": {"phase": "Failed", "reason": "Evicted", "message": "m"}}));
    assert_eq!(bench.next(), Next::default());
    assert!(!bench.pod.uses_node());
    let status = bench.status();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("Evicted")));
}

#[test]
fn a_failed_start_reads_start_error_and_is_tried_again() {
    let mut bench = Bench::new(&json!({}));
    bench.sandbox();
    assert_eq!(bench.next().step, Some(Step::Start(0)));
    let end = Err(StartError::Start("x".into(), "exec format error".into()));
    bench.pod.began(StartReport { index: 0, image_id: None, end }, bench.now);
    let state = bench.status()["containerStatuses"][0]["state"]["terminated"].clone();
    assert_eq!((&state["exitCode"], &state["reason"]), (&json!(128), &json!("StartError")));
    bench.start(0);
    assert_eq!(bench.pod.containers[0].restarts, 1);
}

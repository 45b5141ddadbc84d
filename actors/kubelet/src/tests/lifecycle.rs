//! Tests of pods that start, fail, crash, end and are deleted.

use super::*;

#[test]
fn a_pod_that_starts_slowly_shows_each_stage() {
    sweep(|| async {
        let world = World::new().await;
        let slow = says(&[("start-delay", "5s"), ("ready-after", "7s")]);
        world.create("web", &slow);
        let waiting = world.until("web", 3, |pod| container(pod)["state"]["waiting"].is_object()).await;
        assert_eq!(container(&waiting)["state"]["waiting"]["reason"], "ContainerCreating");
        assert_eq!(condition(&waiting, "PodReadyToStartContainers")["status"], "True");
        assert_eq!(condition(&waiting, "ContainersReady")["message"], "containers with unready status: [main]");
        let running = world.until("web", 6, phase("Running")).await;
        assert!(!ready(&running));
        let since = condition(&running, "Initialized")["lastTransitionTime"].clone();
        let done = world.until("web", 9, ready).await;
        assert_eq!(condition(&done, "Initialized")["lastTransitionTime"], since, "it did not flip");
        assert_eq!(condition(&done, "PodScheduled")["lastTransitionTime"], "2026-01-01T00:00:00Z", "it is not ours");
        assert_eq!(done["status"]["qosClass"], "BestEffort");
        // Without further changes the status is not written again.
        let writes = world.api.calls("patch pods/status");
        clock::sleep(Duration::from_secs(3600)).await;
        assert_eq!(world.api.calls("patch pods/status"), writes);
    });
}

#[test]
fn back_off_doubles_and_the_first_restart_is_at_once() {
    sweep(|| async {
        let world = World::new().await;
        world.create("web", &says(&[("exit-code", "3"), ("exit-after", "1s")]));
        let mut starts = Vec::new();
        let began = clock::now();
        for restarts in 1..=4 {
            world.until("web", 200, |pod| container(pod)["restartCount"] == restarts).await;
            starts.push(began.elapsed().as_secs());
        }
        let pauses: Vec<u64> = starts.iter().zip(starts.iter().skip(1)).map(|(a, b)| b - a).collect();
        // Each container runs for a second before its back-off.
        assert!(pauses.iter().zip([11, 21, 41]).all(|(have, want)| have.abs_diff(want) <= 1), "{pauses:?}");
        let crash = world.until("web", 3, |pod| container(pod)["state"]["waiting"].is_object()).await;
        let uid = crash["metadata"]["uid"].as_str().unwrap();
        assert_eq!(
            container(&crash)["state"]["waiting"],
            json!({"reason": "CrashLoopBackOff",
                "message": format!("back-off 1m20s restarting failed container=main pod=web_default({uid})")})
        );
        assert_eq!(container(&crash)["lastState"]["terminated"]["reason"], "Error");
        assert_eq!(crash["status"]["phase"], "Running");
    });
}

#[test]
fn restart_policies_decide_what_ends_a_pod() {
    sweep(|| async {
        let world = World::new().await;
        let cases = [
            ("a", "Never", "0", "Succeeded"),
            ("b", "Never", "1", "Failed"),
            ("c", "OnFailure", "0", "Succeeded"),
            ("d", "OnFailure", "1", "Running"),
            ("e", "Always", "0", "Running"),
        ];
        for (name, policy, code, _) in cases {
            let mut change = says(&[("exit-code", code), ("exit-after", "2s")]);
            change["spec"] = json!({"restartPolicy": policy});
            world.create(name, &change);
        }
        clock::sleep(Duration::from_secs(60)).await;
        for (name, policy, code, wanted) in cases {
            let pod = world.pod(name).unwrap();
            assert_eq!(pod["status"]["phase"], wanted, "{policy} {code}");
            let restarts = container(&pod)["restartCount"].as_i64().unwrap();
            assert_eq!(restarts > 0, wanted == "Running", "{policy} {code}");
        }
        let over = world.pod("a").unwrap();
        assert_eq!(condition(&over, "Ready")["reason"], "PodCompleted");
        assert_eq!(condition(&over, "PodReadyToStartContainers")["status"], "False");
    });
}

#[test]
fn init_containers_run_in_order_and_sidecars_stay() {
    sweep(|| async {
        let world = World::new().await;
        let mut change = says(&[("one.exit-after", "2s"), ("two.exit-after", "3s"), ("side.ready-after", "1s")]);
        change["spec"] = json!({"restartPolicy": "Never", "initContainers": [
            {"name": "one", "image": "i:1"},
            {"name": "side", "image": "i:1", "restartPolicy": "Always", "startupProbe": {"exec": {"command": ["x"]}}},
            {"name": "two", "image": "i:1"}]});
        world.create("web", &change);
        let inits = |pod: &Value| pod["status"]["initContainerStatuses"].clone();
        let first = world.until("web", 2, |pod| inits(pod)[0]["state"]["running"].is_object()).await;
        assert_eq!(inits(&first)[1]["state"]["waiting"]["reason"], "PodInitializing");
        assert_eq!(condition(&first, "Initialized")["message"], "containers with incomplete status: [one side two]");
        let third = world.until("web", 5, |pod| inits(pod)[2]["state"]["running"].is_object()).await;
        assert_eq!(inits(&third)[0]["state"]["terminated"]["reason"], "Completed");
        assert_eq!(inits(&third)[1]["started"], true);
        assert_eq!(third["status"]["phase"], "Pending");
        let done = world.until("web", 5, ready).await;
        assert_eq!(done["status"]["phase"], "Running");
        assert!(inits(&done)[1]["state"]["running"].is_object());
        world.api.delete("pods", "default", "web", None);
        world.gone("web", 3).await;
    });
}

#[test]
fn an_init_container_that_fails_for_good_fails_the_pod() {
    sweep(|| async {
        let world = World::new().await;
        let mut change = says(&[("one.exit-code", "4")]);
        change["spec"] = json!({"restartPolicy": "Never", "initContainers": [{"name": "one", "image": "i:1"}]});
        world.create("web", &change);
        let failed = world.until("web", 3, phase("Failed")).await;
        assert_eq!(failed["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 4);
        assert_eq!(container(&failed)["state"]["waiting"]["reason"], "PodInitializing");
    });
}

#[test]
fn deletion_waits_for_the_grace_and_then_kills() {
    sweep(|| async {
        let world = World::new().await;
        world.create("polite", &says(&[("stop-delay", "4s")]));
        world.create("rude", &says(&[("stop-delay", "10m")]));
        for name in ["polite", "rude"] {
            world.until(name, 2, ready).await;
            world.api.delete("pods", "default", name, None);
        }
        clock::sleep(Duration::from_secs(3)).await;
        assert!(world.pod("polite").is_some());
        world.gone("polite", 2).await;
        clock::sleep(Duration::from_secs(20)).await;
        assert!(world.pod("rude").is_some(), "the grace is 30 s");
        world.gone("rude", 8).await;
    });
}

#[test]
fn a_shorter_grace_is_obeyed_while_stopping() {
    sweep(|| async {
        let world = World::new().await;
        world.create("web", &says(&[("stop-delay", "10m")]));
        world.until("web", 2, ready).await;
        world.api.delete("pods", "default", "web", None);
        clock::sleep(Duration::from_secs(5)).await;
        world.api.delete("pods", "default", "web", Some(3));
        world.gone("web", 4).await;
    });
}

#[test]
fn a_pod_may_be_deleted_while_it_starts_or_pulls() {
    sweep(|| async {
        let world = World::new().await;
        world.create("slow", &says(&[("start-delay", "10m")]));
        world.create("pull", &says(&[("fail", "pull")]));
        world.until("slow", 2, |pod| container(pod)["state"]["waiting"].is_object()).await;
        world.until("pull", 5, |pod| container(pod)["state"]["waiting"]["reason"] == "ImagePullBackOff").await;
        for name in ["slow", "pull"] {
            world.api.delete("pods", "default", name, None);
            world.gone(name, 3).await;
        }
        clock::sleep(Duration::from_secs(1)).await;
        let left = world.fleet.node("n1").unwrap().runtime().list_pod_sandbox(None).await.unwrap();
        assert_eq!(left, [], "no trace is left");
    });
}

#[test]
fn a_pod_of_the_same_name_is_another_pod() {
    sweep(|| async {
        let world = World::new().await;
        world.create("web", &says(&[("stop-delay", "20s")]));
        let first = world.until("web", 2, ready).await;
        world.api.delete("pods", "default", "web", Some(0));
        world.create("web", &json!({}));
        let second = world.until("web", 3, ready).await;
        assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
        clock::sleep(Duration::from_secs(60)).await;
        assert!(ready(&world.pod("web").unwrap()), "the end of the first does not touch the second");
        let left = world.node.runtime().list_pod_sandbox(None).await.unwrap();
        assert_eq!(left.len(), 1);
    });
}

#[test]
fn an_active_deadline_ends_a_pod() {
    sweep(|| async {
        let world = World::new().await;
        world.create("web", &json!({"spec": {"activeDeadlineSeconds": 30}}));
        world.until("web", 2, ready).await;
        clock::sleep(Duration::from_secs(25)).await;
        assert_eq!(world.pod("web").unwrap()["status"]["phase"], "Running");
        let late = world.until("web", 8, phase("Failed")).await;
        assert_eq!(late["status"]["reason"], "DeadlineExceeded");
        assert_eq!(late["status"]["message"], "Pod was active on the node longer than the specified deadline");
    });
}

#[test]
fn readiness_gates_hold_back_ready_only() {
    sweep(|| async {
        let world = World::new().await;
        world.create("web", &json!({"spec": {"readinessGates": [{"conditionType": "x/y"}]}}));
        let held = world.until("web", 2, |pod| condition(pod, "ContainersReady")["status"] == "True").await;
        assert_eq!(condition(&held, "Ready")["reason"], "ReadinessGatesNotReady");
        let message = "corresponding condition of pod readiness gate \"x/y\" does not exist.";
        assert_eq!(condition(&held, "Ready")["message"], message);
        let mut conditions = held["status"]["conditions"].as_array().unwrap().clone();
        conditions.push(json!({"type": "x/y", "status": "True"}));
        world.api.patch("pods", ("default", "web"), &json!({"status": {"conditions": conditions}}));
        world.until("web", 2, ready).await;
    });
}

#[test]
fn logs_follow_the_container_and_refuse_with_upstreams_texts() {
    sweep(|| async {
        let world = World::new().await;
        let mut change = says(&[("log-interval", "1s"), ("exit-after", "3500ms")]);
        change["spec"] = json!({"restartPolicy": "Never"});
        world.create("web", &change);
        world.until("web", 2, ready).await;
        let (code, text) = world.log("web/main?follow=true").await;
        assert_eq!((code, text.as_str()), (200, "main: line 1\nmain: line 2\nmain: line 3\nmain: line 4\n"));
        let (_, tail) = world.log("web/main?tailLines=1&timestamps=true").await;
        assert!(tail.ends_with(".000000000Z main: line 4\n"), "{tail}");
        let (_, cut) = world.log("web/main?limitBytes=5").await;
        assert_eq!(cut, "main:");
        let refused = world.log("web/main?previous=true").await;
        assert_eq!(refused, (400, "previous terminated container \"main\" in pod \"web\" not found".to_owned()));
        assert_eq!(world.log("none/main").await, (404, "pod \"none\" does not exist".to_owned()));
        world.create("pull", &says(&[("fail", "pull")]));
        world.until("pull", 5, |pod| container(pod)["state"]["waiting"]["reason"] == "ImagePullBackOff").await;
        let text = "container \"main\" in pod \"pull\" is waiting to start: trying and failing to pull image";
        assert_eq!(world.log("pull/main").await, (400, text.to_owned()));
    });
}

#[test]
fn a_node_refuses_what_does_not_fit() {
    sweep(|| async {
        let world = World::new().await;
        let asks = |cpu: &str| {
            json!({"spec": {"containers": [
            {"name": "main", "image": "i:1", "resources": {"requests": {"cpu": cpu}}, "ports": [{"containerPort": 80, "hostPort": 80}]}]}})
        };
        world.create("first", &asks("5"));
        world.until("first", 2, ready).await;
        world.create("second", &asks("4"));
        let refused = world.until("second", 2, phase("Failed")).await;
        assert_eq!(refused["status"]["reason"], "OutOfcpu");
        let message =
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 5000, capacity: 8000";
        assert_eq!(refused["status"]["message"], message);
        assert_eq!(refused["status"]["qosClass"], "BestEffort", "kept");
        world.create("third", &asks("1"));
        let refused = world.until("third", 2, phase("Failed")).await;
        assert_eq!(refused["status"]["reason"], "NodePorts");
        // The first pod's resources are free once it is deleted.
        world.api.delete("pods", "default", "first", None);
        world.gone("first", 3).await;
        world.create("fourth", &asks("8"));
        world.until("fourth", 2, ready).await;
    });
}

#[test]
fn labels_are_read_again_before_a_pod_is_refused_for_them() {
    sweep(|| async {
        let world = World::new().await;
        world.create("warm", &json!({}));
        world.until("warm", 2, ready).await;
        world.api.patch("nodes", ("", "n1"), &json!({"metadata": {"labels": {"disk": "ssd"}}}));
        world.create("web", &json!({"spec": {"nodeSelector": {"disk": "ssd"}}}));
        world.until("web", 2, ready).await;
        world.create("other", &json!({"spec": {"nodeSelector": {"disk": "tape"}}}));
        let refused = world.until("other", 2, phase("Failed")).await;
        let message =
            "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        assert_eq!(refused["status"]["message"], message);
    });
}

/// Returns a patch that sets these taints on node `n1`.
fn taints(keys: &[&str]) -> serde_json::Value {
    let taint = |key: &&str| json!({"key": key, "effect": "NoExecute"});
    json!({"spec": {"taints": keys.iter().map(taint).collect::<Vec<_>>()}})
}

/// Adds a taint, and waits until a new pod is rejected for it: long before the next check of the Node.
async fn tainted(world: &World) {
    world.create("warm", &json!({}));
    world.until("warm", 2, ready).await;
    let looks = world.api.calls("get nodes");
    world.api.patch("nodes", ("", "n1"), &taints(&["dedicated"]));
    // A pod created just after the taint may arrive before it.
    for at in 0.. {
        let name = format!("late{at}");
        world.create(&name, &json!({}));
        let pod = world.until(&name, 2, |pod| ready(pod) || phase("Failed")(pod)).await;
        if phase("Failed")(&pod) {
            assert_eq!(pod["status"]["reason"], "TaintToleration");
            break;
        }
        assert!(at < 3, "a taint is not noticed");
    }
    assert!(world.api.calls("get nodes") <= looks + 2, "one look before the verdict");
}

#[test]
fn a_taint_of_the_node_counts_as_soon_as_it_is_there() {
    sweep(|| async { tainted(&World::new().await).await });
}

#[test]
fn a_pod_that_comes_with_the_end_of_a_taint_is_taken() {
    sweep(|| async {
        let world = World::new().await;
        tainted(&world).await;
        world.api.patch("nodes", ("", "n1"), &taints(&[]));
        world.create("next", &json!({}));
        let pod = world.until("next", 2, |pod| ready(pod) || phase("Failed")(pod)).await;
        assert!(ready(&pod), "{:#}", pod["status"]);
    });
}

//! Tests of nodes: Lease and status, restarts, outages, and the cost of thousands.

use super::*;

#[test]
fn a_restarted_kubelet_takes_up_what_ran_and_what_ended_meanwhile() {
    sweep(|| async {
        let world = World::new().await;
        world.create("web", &says(&[("exit-after", "100s"), ("exit-code", "1"), ("exit-times", "1")]));
        let before = world.until("web", 2, ready).await;
        world.node.stop();
        world.node.actor().ended(clock::after(Duration::from_secs(10))).await.unwrap();
        clock::sleep(Duration::from_secs(50)).await;
        world.fleet.add(world.api.client(), NodeConfig::simulated("n1", 0)).await.unwrap();
        clock::sleep(Duration::from_secs(30)).await;
        let after = world.pod("web").unwrap();
        assert_eq!(after["status"], before["status"], "nothing has changed");
        // The container's exit is due 100 s after its start, whichever kubelet runs.
        let restarted = world.until("web", 25, |pod| container(pod)["restartCount"] == 1).await;
        assert_eq!(container(&restarted)["lastState"]["terminated"]["exitCode"], 1);
        assert_eq!(restarted["status"]["podIP"], before["status"]["podIP"]);
        world.api.delete("pods", "default", "web", None);
        world.gone("web", 3).await;
    });
}

#[test]
fn an_outage_of_the_api_loses_nothing() {
    sweep(|| async {
        let world = World::new().await;
        world.create(
            "web",
            &json!({"spec": {"restartPolicy": "Never"}, "metadata": says(&[("exit-after", "5s")])["metadata"]}),
        );
        world.until("web", 2, ready).await;
        world.api.down(true);
        clock::sleep(Duration::from_secs(60)).await;
        world.api.down(false);
        world.until("web", 40, phase("Succeeded")).await;
        let ready = condition(&world.api.get("nodes", "", "n1").unwrap(), "Ready")["status"].clone();
        assert_eq!(ready, "True");
    });
}

#[test]
fn leases_are_renewed_every_ten_seconds_and_lost_nodes_come_back() {
    sweep(|| async {
        let world = World::new().await;
        clock::sleep(Duration::from_secs(600)).await;
        let renewals = world.api.calls("patch leases");
        assert!((60..=76).contains(&renewals), "{renewals}");
        assert!((1..=4).contains(&world.api.calls("patch nodes/status")), "an idle node says so every five minutes");
        // The node lifecycle controller has set the node to Unknown.
        let unknown = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        world.api.patch("nodes", ("", "n1"), &unknown);
        clock::sleep(Duration::from_secs(11)).await;
        assert_eq!(condition(&world.api.get("nodes", "", "n1").unwrap(), "Ready")["status"], "True");
        clock::sleep(Duration::from_secs(1)).await;
        let about = |event: &&Value| event["involvedObject"]["kind"] == "Node";
        let told: Vec<Value> =
            world.api.list("events").iter().filter(about).map(|event| event["message"].clone()).collect();
        assert_eq!(told, ["Node n1 status is now: NodeReady"]);
        world.api.delete("nodes", "", "n1", None);
        clock::sleep(Duration::from_secs(11)).await;
        assert!(world.api.get("nodes", "", "n1").is_some());
    });
}

#[test]
fn a_status_that_somebody_else_wrote_is_put_right() {
    sweep(|| async {
        let world = World::new().await;
        world.create("web", &json!({}));
        let pod = world.until("web", 2, ready).await;
        let mut conditions = pod["status"]["conditions"].as_array().unwrap().clone();
        conditions.iter_mut().filter(|one| one["type"] == "Ready").for_each(|one| one["status"] = "False".into());
        world.api.patch("pods", ("default", "web"), &json!({"status": {"conditions": conditions}}));
        world.until("web", 2, ready).await;
    });
}

#[test]
fn events_stay_within_their_budget() {
    sweep(|| async {
        let world = World::new().await;
        for n in 0..100 {
            world.create(&format!("p{n}"), &json!({}));
        }
        world.until("p99", 5, ready).await;
        clock::sleep(Duration::from_secs(5)).await;
        let events = world.api.calls("create events");
        assert!((90..=140).contains(&events), "{events} of about 400");
        assert_eq!(world.api.calls("patch pods/status"), 100, "one write for a pod that starts at once");
    });
}

/// Uses 200 nodes; the bound is per node and per pod, so it does not depend on their number.
#[test]
fn a_node_is_one_actor_and_a_pod_costs_little() {
    const NODES: u16 = 200;
    Universe::run(1, || async {
        let world = World::new().await;
        for index in 1..NODES {
            let name = format!("n{}", index + 1);
            world.fleet.add(world.api.client(), NodeConfig::simulated(name, index)).await.unwrap();
        }
        clock::sleep(Duration::from_secs(30)).await;
        let actors = world.system.snapshot();
        let mine = actors.iter().filter(|actor| actor.life == oarlock_runtime::Life::Running).count();
        assert!(mine <= usize::from(NODES) + 2, "{mine} actors for {NODES} nodes");
        assert_eq!(world.api.list("nodes").len(), usize::from(NODES));
        assert_eq!(world.fleet.names().len(), usize::from(NODES));
    });
}

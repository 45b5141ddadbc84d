//! Tests of preemption: the victims, the order of the writes, and the use of the freed room.

use oarlock_informer::Project;
use oarlock_schema::resource;

use super::*;
use crate::PREEMPTION_DEADLINE;
use crate::actor::evict::{MAX_TRIES, denominate, nominate};
use crate::project::PodView;

fn of_priority(mut pod: Value, priority: i32) -> Value {
    pod["spec"]["priority"] = json!(priority);
    pod
}

fn placed(name: &str, cpu: &str, priority: i32) -> Value {
    let mut pod = of_priority(pod(name, cpu), priority);
    pod["spec"]["nodeName"] = json!("n1");
    pod
}

/// Creates a node of two cores with two pods of one core, of priority 1 and 2.
fn full(fake: &Fake) {
    fake.put("nodes", node("n1"));
    fake.put("pods", placed("low1", "1", 1));
    fake.put("pods", placed("low2", "1", 2));
}

fn names(pods: &[Value]) -> Vec<&str> {
    pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect()
}

/// Returns the message of the `PodScheduled` condition.
fn says(fake: &Fake, name: &str) -> String {
    let conditions = fake.get("pods", "default", name)["status"]["conditions"].clone();
    let scheduled = conditions.as_array().into_iter().flatten().find(|condition| condition["type"] == "PodScheduled");
    scheduled.and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned()
}

#[test]
fn a_pod_of_lower_priority_leaves_and_everybody_is_told() {
    play(20, |fake| async move {
        full(&fake);
        fake.put("pods", of_priority(pod("high", "1"), 9));
        fake.until("high is bound", |fake| on(fake, "high") == "n1").await;
        let evicted = fake.evicted();
        assert_eq!(names(&evicted), ["low1"], "the least important");
        let condition = &evicted[0]["status"]["conditions"][0];
        let told = ["type", "status", "reason", "message"].map(|field| condition[field].as_str().unwrap());
        let why = "default-scheduler: preempting to accommodate a higher priority pod";
        assert_eq!(told, ["DisruptionTarget", "True", "PreemptionByScheduler", why]);
        assert_eq!(condition["observedGeneration"], 1);
        fake.until("an event", |fake| !events(fake, "low1").is_empty()).await;
        assert_eq!(
            events(&fake, "low1"),
            [("Preempted".to_owned(), "Preempted by pod uid-high on node n1".to_owned())]
        );
        fake.until("both events", |fake| events(fake, "high").len() == 2).await;
        // As upstream, the message does not mention a successful preemption.
        let [(failed, text), (scheduled, _)] = &events(&fake, "high")[..] else {
            panic!("{:?}", events(&fake, "high"))
        };
        assert_eq!((failed.as_str(), scheduled.as_str()), ("FailedScheduling", "Scheduled"));
        assert_eq!(text, "0/1 nodes are available: 1 Insufficient cpu.");
        // The nomination is written before the victims are evicted.
        let kinds: Vec<String> =
            fake.fences().into_iter().map(|(what, _)| what).filter(|what| what != "events/").collect();
        assert_eq!(&kinds[..3], ["pods/status", "pods/status", "pods/"], "nomination, condition, deletion: {kinds:?}");
    });
}

#[test]
fn everything_of_a_preemption_is_written_under_the_arbiters_claim() {
    Universe::run(21, || async {
        let fake = Fake::default();
        full(&fake);
        let system = System::start(Options::default()).await.unwrap();
        let client = Client::new(std::sync::Arc::new(fake.clone()));
        let (holder, placement) = Placement::shared();
        let shard = crate::shards().unit("default", "high").unwrap().clone();
        holder.set(BTreeMap::from([(crate::arbiter_unit(), Revision(2)), (shard.clone(), Revision(1))]));
        let config = Config { placement, ..Config::default() };
        let _scheduler = Scheduler::spawn(&system, client, config).await.unwrap();
        fake.put("pods", of_priority(pod("high", "1"), 9));
        fake.until("high is bound", |fake| on(fake, "high") == "n1").await;
        let writes = fake.fences();
        let of =
            |what: &str| writes.iter().filter(|(kind, _)| kind == what).map(|(_, fence)| &**fence).collect::<Vec<_>>();
        assert_eq!((of("pods/"), of("pods/binding")), (vec!["arbiter@2"], vec!["arbiter@2"]));
        // The pod's own condition is written under its shard's claim.
        let own = format!("{shard}@1");
        assert_eq!(of("pods/status")[..2], ["arbiter@2", "arbiter@2"]);
        assert!(of("pods/status")[2..].iter().all(|fence| *fence == own), "{writes:?}");
        shutdown::shutdown(&system, shutdown::Graces::default()).await;
    });
}

#[test]
fn while_victims_terminate_nobody_else_leaves_and_nobody_else_comes() {
    play(22, |fake| async move {
        full(&fake);
        fake.be_graceful();
        fake.put("pods", of_priority(pod("high", "2"), 9));
        fake.until("both leave", |fake| fake.evicted().len() == 2).await;
        assert_eq!(fake.get("pods", "default", "high")["status"]["nominatedNodeName"], "n1");
        fake.delete("pods", "default", "low1");
        fake.put("pods", of_priority(pod("late", "1"), 9));
        let waits = "preemption: not eligible due to a terminating pod on the nominated node.";
        fake.until("high waits", |fake| says(fake, "high").ends_with(waits)).await;
        let full = "0/1 nodes are available: 1 Insufficient cpu.";
        fake.until("late finds no room", |fake| says(fake, "late").starts_with(full)).await;
        clock::sleep(Duration::from_secs(60)).await;
        assert_eq!((on(&fake, "late"), on(&fake, "high")), (String::new(), String::new()));
        fake.delete("pods", "default", "low2");
        fake.until("high is bound", |fake| on(fake, "high") == "n1").await;
        assert_eq!((fake.evicted().len(), on(&fake, "late")), (2, String::new()));
    });
}

#[test]
fn a_deletion_that_fails_is_tried_again() {
    play(23, |fake| async move {
        full(&fake);
        fake.fail_deletions(2 * MAX_TRIES as usize);
        fake.put("pods", of_priority(pod("high", "1"), 9));
        fake.until("high is bound", |fake| on(fake, "high") == "n1").await;
        assert_eq!(names(&fake.evicted()), ["low1"]);
        let failed = failed_preemptions(&fake, "high");
        assert_eq!(failed.len(), 1, "two of a kind are one event: {failed:?}");
    });
}

#[test]
fn a_lost_answer_stops_no_preemption_half_way() {
    play(28, |fake| async move {
        full(&fake);
        fake.fail_deletions(MAX_TRIES as usize - 1);
        fake.put("pods", of_priority(pod("high", "1"), 9));
        fake.until("high is bound", |fake| on(fake, "high") == "n1").await;
        assert_eq!(names(&fake.evicted()), ["low1"]);
        fake.until("both events", |fake| events(fake, "high").len() == 2).await;
        assert_eq!(failed_preemptions(&fake, "high"), [""; 0]);
    });
}

#[test]
fn after_a_lost_answer_no_victim_is_deleted_for_a_pod_that_waits_no_longer() {
    play(29, |fake| async move {
        full(&fake);
        fake.fail_deletions(1);
        fake.put("pods", of_priority(pod("high", "1"), 9));
        let marked = |fake: &Fake| condition(fake, "low1")["type"] == "DisruptionTarget";
        fake.until("low1 is marked", marked).await;
        assert_eq!(names(&fake.evicted()), [""; 0], "the answer to the deletion was lost");
        fake.delete("pods", "default", "high");
        clock::sleep(Duration::from_secs(60)).await;
        assert_eq!(names(&fake.evicted()), [""; 0]);
    });
}

/// Returns the texts of the Events of failed preemptions for a pod.
fn failed_preemptions(fake: &Fake, name: &str) -> Vec<String> {
    events(fake, name).into_iter().map(|(_, text)| text).filter(|text| text.starts_with("preemption: ")).collect()
}

#[test]
fn a_preemption_without_answers_ends_and_the_pod_is_scheduled_again() {
    play(30, |fake| async move {
        full(&fake);
        fake.lose_deletions(true);
        fake.put("pods", of_priority(pod("high", "1"), 9));
        let nominated = |fake: &Fake| fake.get("pods", "default", "high")["status"]["nominatedNodeName"] == "n1";
        fake.until("high is nominated", nominated).await;
        clock::sleep(PREEMPTION_DEADLINE - Duration::from_secs(1)).await;
        assert_eq!(failed_preemptions(&fake, "high"), [""; 0]);
        fake.lose_deletions(false);
        fake.until("the failure is reported", |fake| !failed_preemptions(fake, "high").is_empty()).await;
        assert_eq!(
            failed_preemptions(&fake, "high"),
            ["preemption: Timeout: no answer to the writes of the preemption"]
        );
        fake.until("high is bound", |fake| on(fake, "high") == "n1").await;
        assert_eq!(names(&fake.evicted()), ["low1"]);
    });
}

#[test]
fn a_preemptor_that_cannot_be_read_ends_no_preemption() {
    play(31, |fake| async move {
        full(&fake);
        fake.fail_deletions(1);
        fake.fail_reads("high", 7);
        fake.put("pods", of_priority(pod("high", "1"), 9));
        fake.until("high is bound", |fake| on(fake, "high") == "n1").await;
        fake.until("both events", |fake| events(fake, "high").len() == 2).await;
        assert_eq!((names(&fake.evicted()), failed_preemptions(&fake, "high")), (vec!["low1"], vec![]));
    });
}

#[test]
fn a_preemptor_that_goes_away_costs_no_more() {
    play(24, |fake| async move {
        full(&fake);
        fake.be_graceful();
        fake.put("pods", of_priority(pod("high", "2"), 9));
        fake.until("both leave", |fake| fake.evicted().len() == 2).await;
        fake.put("pods", of_priority(pod("late", "1"), 3));
        fake.until("late waits", |fake| !says(fake, "late").is_empty()).await;
        fake.delete("pods", "default", "low1");
        clock::sleep(Duration::from_secs(20)).await;
        assert_eq!(on(&fake, "late"), "", "the room is another's");
        fake.delete("pods", "default", "high");
        fake.until("late gets the room", |fake| on(fake, "late") == "n1").await;
    });
}

#[test]
fn a_nomination_of_an_earlier_process_counts_and_one_that_cannot_help_is_cleared() {
    play(25, |fake| async move {
        fake.put("nodes", node("n1"));
        let mut expected = of_priority(pod("expected", "2"), 9);
        expected["spec"]["schedulingGates"] = json!([{"name": "example.com/g"}]);
        expected["status"]["nominatedNodeName"] = json!("n1");
        fake.put("pods", expected);
        let mut foreign = of_priority(pod("foreign", "2"), 99);
        foreign["spec"]["schedulerName"] = json!("somebody-else");
        foreign["status"]["nominatedNodeName"] = json!("n1");
        fake.put("pods", foreign);
        fake.put("pods", of_priority(pod("low", "1"), 1));
        fake.until("low waits", |fake| says(fake, "low").starts_with("0/1 nodes are available: 1 Insufficient cpu."))
            .await;
        fake.delete("pods", "default", "expected");
        fake.until("low is bound, whatever another scheduler nominated", |fake| on(fake, "low") == "n1").await;
        let mut stuck = of_priority(pod("stuck", "4"), 9);
        stuck["status"]["nominatedNodeName"] = json!("n1");
        fake.put("pods", stuck);
        let cleared = |fake: &Fake| fake.get("pods", "default", "stuck")["status"]["nominatedNodeName"].is_null();
        fake.until("the nomination is cleared", cleared).await;
        assert!(says(&fake, "stuck").ends_with("1 Preemption is not helpful for scheduling."));
    });
}

#[test]
fn budgets_are_read_from_the_api() {
    play(26, |fake| async move {
        fake.put(
            "poddisruptionbudgets",
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "b", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "kept"}}},
                "status": {"disruptionsAllowed": 0},
            }),
        );
        fake.put("nodes", node("n1"));
        let mut kept = placed("kept", "1", 1);
        kept["metadata"]["labels"]["app"] = json!("kept");
        fake.put("pods", kept);
        fake.put("pods", placed("free", "1", 5));
        fake.put("pods", of_priority(pod("high", "1"), 9));
        fake.until("high is bound", |fake| on(fake, "high") == "n1").await;
        assert_eq!(names(&fake.evicted()), ["free"]);
    });
}

#[test]
fn a_nomination_that_arrives_late_undoes_none_that_was_made_since() {
    Universe::run(27, || async {
        let fake = Fake::default();
        fake.put("pods", pod("a", "1"));
        let client = Client::new(Arc::new(fake.clone()));
        let read = || async {
            let found = client.get(resource("", "v1", "pods").unwrap(), "default", "a").await.unwrap();
            PodView::project(&found.obj().unwrap()).info
        };
        let nominated = || fake.get("pods", "default", "a")["status"]["nominatedNodeName"].clone();
        let first = read().await;
        fake.delay_nominations(&[Duration::from_secs(4)]);
        assert_eq!(nominate(&client, &first, "n1").await.unwrap(), read().await.version);
        assert_eq!(nominated(), "n1");
        // Another client has changed the pod since; the nomination succeeds nevertheless.
        assert_eq!(nominate(&client, &first, "n2").await.unwrap(), read().await.version);
        clock::sleep(Duration::from_secs(10)).await;
        assert_eq!(nominated(), "n2");
        denominate(&client, std::slice::from_ref(&first), "n1").await;
        assert_eq!(nominated(), "n2", "it is not nominated there any more");
        denominate(&client, &[first], "n2").await;
        assert_eq!(nominated(), Value::Null);
    });
}

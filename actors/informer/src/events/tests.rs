use oarlock_meta::Status;
use oarlock_runtime::Universe;

use super::correlate::{Correlator, Outcome, Record};
use super::*;
use crate::testing::{Fake, system, until};

fn about(name: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: "d".into(),
        name: name.into(),
        uid: "u".into(),
        resource_version: "7".into(),
        field_path: "spec.containers{c}".into(),
    }
}

fn record(name: &str, message: &str) -> Record {
    Record {
        about: about(name),
        kind: EventType::Normal,
        reason: "Why".into(),
        message: message.to_owned(),
        at: 1_700_000_000,
    }
}

fn take(correlator: &mut Correlator, record: &Record) -> String {
    match correlator.take(record, clock::now()) {
        Outcome::Drop => "drop".to_owned(),
        Outcome::New { message } => {
            correlator.wrote(record, &message, "e", 1);
            format!("new {message}")
        }
        Outcome::Repeat { name, count, message } => {
            correlator.wrote(record, &message, &name, count);
            format!("{name} {count} {message}")
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_again_is_counted_whatever_revision_was_looked_at() {
    let mut correlator = Correlator::default();
    let mut first = record("p", "m");
    assert_eq!(take(&mut correlator, &first), "new m");
    first.about.resource_version = "8".into();
    assert_eq!(take(&mut correlator, &first), "e 2 m");
    assert_eq!(take(&mut correlator, &first), "e 3 m");
    assert_eq!(take(&mut correlator, &record("q", "m")), "new m");
}

#[tokio::test(start_paused = true)]
async fn more_than_ten_different_messages_are_combined_for_ten_minutes() {
    let mut correlator = Correlator::default();
    for n in 0..10 {
        assert_eq!(take(&mut correlator, &record("p", &format!("m{n}"))), format!("new m{n}"));
    }
    assert_eq!(take(&mut correlator, &record("p", "m10")), "new (combined from similar events): m10");
    assert_eq!(take(&mut correlator, &record("p", "m11")), "e 2 (combined from similar events): m11");
    assert_eq!(take(&mut correlator, &record("p", "m3")), "e 2 m3");
    clock::sleep(Duration::from_secs(601)).await;
    assert_eq!(take(&mut correlator, &record("p", "m12")), "new m12");
}

#[tokio::test(start_paused = true)]
async fn one_object_may_have_25_at_once_and_one_more_every_five_minutes() {
    let mut correlator = Correlator::default();
    let told = |correlator: &mut Correlator| (0..50).filter(|_| take(correlator, &record("p", "m")) != "drop").count();
    assert_eq!(told(&mut correlator), 25);
    clock::sleep(Duration::from_secs(901)).await;
    assert_eq!(told(&mut correlator), 3);
    assert_eq!(take(&mut correlator, &record("q", "m")), "new m");
    clock::sleep(Duration::from_secs(300 * 100)).await;
    assert_eq!(told(&mut correlator), 25);
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_bounded() {
    let mut correlator = Correlator::default();
    for n in 0..20_000 {
        assert_eq!(take(&mut correlator, &record(&format!("p{n}"), "m")), "new m");
    }
    assert_eq!(take(&mut correlator, &record("p19999", "m")), "e 2 m");
    assert_eq!(take(&mut correlator, &record("p0", "m")), "new m");
}

#[test]
fn names_are_the_objects_and_fit() {
    assert_eq!(body::name("web-0", 0x1234), "web-0.1234");
    let long = body::name(&"x.".repeat(200), 0x1234);
    assert!(long.len() <= 253 && long.ends_with("x.1234"), "{long}");
}

#[test]
fn an_event_is_created_then_patched_then_created_anew_when_it_expired() {
    Universe::sweep(0..2, || async {
        let fake = Fake::default();
        let system = system().await;
        let recorder = Recorder::start(&system, fake.client(), "test-component", "node-1").await.unwrap();
        recorder.warning(&about("p"), "Failed", "it failed");
        until(|| fake.bodies().len() == 1).await;
        let event: serde_json::Value = serde_json::from_str(&fake.bodies()[0]).unwrap();
        assert_eq!(
            (&event["kind"], &event["type"], &event["reason"], &event["message"], &event["count"]),
            (&"Event".into(), &"Warning".into(), &"Failed".into(), &"it failed".into(), &1.into())
        );
        assert_eq!(event["source"], json!({"component": "test-component", "host": "node-1"}));
        assert_eq!(
            event["involvedObject"],
            json!({"kind": "Pod", "namespace": "d", "name": "p", "uid": "u", "apiVersion": "v1", "resourceVersion": "7",
                "fieldPath": "spec.containers{c}"})
        );
        assert_eq!(event["firstTimestamp"], event["lastTimestamp"]);
        let name = event["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("p.") && event["metadata"]["namespace"] == "d", "{name}");

        clock::sleep(Duration::from_secs(60)).await;
        recorder.warning(&about("p"), "Failed", "it failed");
        until(|| fake.bodies().len() == 2).await;
        let patch: serde_json::Value = serde_json::from_str(&fake.bodies()[1]).unwrap();
        assert_eq!(patch["count"], 2);
        assert!(patch["lastTimestamp"].as_str() > event["lastTimestamp"].as_str());
        assert_eq!(fake.requests().last(), Some(&format!("patch d/{name}")));

        fake.delete(&name);
        recorder.warning(&about("p"), "Failed", "it failed");
        until(|| fake.bodies().len() == 4).await;
        let anew: serde_json::Value = serde_json::from_str(&fake.bodies()[3]).unwrap();
        assert_eq!(anew["count"], 3);
        assert_ne!(anew["metadata"]["name"], name);
    });
}

#[test]
fn an_apiserver_that_is_away_costs_events_and_nothing_else() {
    Universe::sweep(0..2, || async {
        let fake = Fake::default();
        fake.behave(|b| b.down = Some(Status::service_unavailable("down")));
        let system = system().await;
        let recorder = Recorder::start(&system, fake.client(), "test", "").await.unwrap();
        for n in 0..5000 {
            recorder.normal(&about(&format!("p{n}")), "Why", "m");
        }
        until(|| fake.asked("create") >= 2).await;
        fake.behave(|b| b.down = None);
        until(|| fake.bodies().len() > 1000).await;
        let told = fake.bodies().len();
        assert!(told <= RECORDER.mailbox + 1, "{told}");
        recorder.normal(&about("later"), "Why", "m");
        until(|| fake.bodies().last().is_some_and(|body| body.contains("\"later\""))).await;
    });
}

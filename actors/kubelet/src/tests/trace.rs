//! Tests of the spans of a pod's life. All tests of this crate share one ring, so each pod has a uid of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use oarlock_telemetry::traces::opentelemetry::trace::Status;
use oarlock_telemetry::traces::opentelemetry_sdk::trace::SpanData;
use oarlock_telemetry::traces::{self, Change, Settings};

use super::*;

/// Creates a pod with this uid, and returns its world.
async fn world(uid: &str, change: &Value) -> World {
    traces::start(Settings::ring());
    let world = World::new().await;
    let mut change = change.clone();
    change["metadata"]["uid"] = uid.into();
    change["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
    world.create("web", &change);
    world
}

fn spans(uid: &str) -> Vec<Arc<SpanData>> {
    traces::ring().unwrap().trace(Change::new(uid, 1).trace())
}

fn named<'a>(spans: &'a [Arc<SpanData>], name: &str) -> Vec<&'a SpanData> {
    spans.iter().map(|span| &**span).filter(|span| span.name == name).collect()
}

fn names(spans: &[Arc<SpanData>]) -> Vec<&str> {
    spans.iter().map(|span| &*span.name).collect()
}

fn attributes(span: &SpanData) -> BTreeMap<String, String> {
    span.attributes.iter().map(|a| (a.key.to_string(), a.value.to_string())).collect()
}

fn took(span: &SpanData) -> Duration {
    span.end_time.duration_since(span.start_time).unwrap()
}

/// Runs `test` once in virtual time: a second run would add its spans to those of the first.
fn once<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    Universe::run(0, test);
}

#[test]
fn every_step_is_recorded_when_it_ends_and_the_root_when_the_pod_is_ready() {
    once(|| async {
        let uid = "a0000000-0000-4000-8000-000000000001";
        let world = world(uid, &says(&[("pull-delay", "3s"), ("start-delay", "2s"), ("ready-after", "5s")])).await;
        world.until("web", 9, phase("Running")).await;
        assert_eq!(names(&spans(uid)), ["admit", "sandbox", "pull", "start"], "the change has not ended");
        world.until("web", 9, ready).await;
        clock::sleep(Duration::from_secs(1)).await;
        let all = spans(uid);
        assert_eq!(names(&all), ["admit", "sandbox", "pull", "start", "ready", "pod create"]);
        let seconds = |name: &str| took(named(&all, name)[0]).as_secs();
        assert_eq!((seconds("pull"), seconds("start"), seconds("ready")), (3, 2, 5));
        let root = named(&all, "pod create")[0];
        assert_eq!(root.span_context, Change::new(uid, 1).context());
        assert_eq!(root.start_time, SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_836_800));
        assert!(all.iter().all(|span| span.name == "pod create" || span.parent_span_id == root.span_context.span_id()));
        let pairs = [
            ("container.image.name", "nginx:1"),
            ("k8s.container.name", "main"),
            ("k8s.namespace.name", "default"),
            ("k8s.node.name", "n1"),
            ("k8s.pod.name", "web"),
            ("k8s.pod.uid", uid),
            ("oarlock.object.generation", "1"),
        ];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(attributes(named(&all, "pull")[0]), pairs.into());
        // Syncs without work, and status writes of other clients that the kubelet corrects, record nothing.
        clock::sleep(Duration::from_secs(3600)).await;
        assert_eq!(spans(uid).len(), all.len());
    });
}

#[test]
fn failed_pulls_are_spans_with_an_error_and_the_change_goes_on() {
    once(|| async {
        let uid = "b0000000-0000-4000-8000-000000000001";
        let world = world(uid, &says(&[("fail", "pull: from https://me:pw@host/x?token=secret denied")])).await;
        world.until("web", 60, |_| named(&spans(uid), "pull").len() >= 2).await;
        let all = spans(uid);
        let Status::Error { description } = &named(&all, "pull")[0].status else { panic!("it failed") };
        assert!(
            description.starts_with("ErrImagePull: ") && description.contains("https://host/x denied"),
            "{description}"
        );
        assert!(named(&all, "pod create").is_empty() && named(&all, "ready").is_empty());
    });
}

#[test]
fn a_pod_that_fails_or_is_rejected_ends_its_change_with_the_reason() {
    once(|| async {
        let uid = "c0000000-0000-4000-8000-000000000001";
        let mut change = says(&[("exit-code", "3"), ("exit-after", "1s"), ("ready-after", "60s")]);
        change["spec"] = json!({"restartPolicy": "Never"});
        let ended = world(uid, &change).await;
        ended.until("web", 30, phase("Failed")).await;
        clock::sleep(Duration::from_secs(1)).await;
        let all = spans(uid);
        let root = named(&all, "pod create")[0];
        assert_eq!(root.status, Status::error("container main ended with exit code 3: Error"));

        let uid = "c0000000-0000-4000-8000-000000000002";
        let mut change = json!({"spec": {}});
        change["spec"]["nodeSelector"] = json!({"no": "such"});
        let rejected = world(uid, &change).await;
        rejected.until("web", 60, phase("Failed")).await;
        clock::sleep(Duration::from_secs(1)).await;
        let all = spans(uid);
        assert!(
            matches!(&named(&all, "admit")[0].status, Status::Error { description } if description.contains("NodeAffinity"))
        );
        assert!(matches!(&named(&all, "pod create")[0].status, Status::Error { .. }));
    });
}

#[test]
fn a_deletion_has_no_root_from_the_kubelet() {
    once(|| async {
        let uid = "d0000000-0000-4000-8000-000000000001";
        let world = world(uid, &says(&[("stop-delay", "4s")])).await;
        world.until("web", 5, ready).await;
        clock::sleep(Duration::from_secs(1)).await;
        let before = names(&spans(uid)).join(" ");
        assert_eq!(before, "admit sandbox pull start ready pod create");
        let writes = world.api.calls("patch pods/status");
        world.api.delete("pods", "default", "web", None);
        world
            .until("web", 3, |pod| pod["metadata"]["generation"] == 2 && pod["status"]["observedGeneration"] == 2)
            .await;
        world.gone("web", 6).await;
        clock::sleep(Duration::from_secs(1)).await;
        assert!(world.api.calls("patch pods/status") > writes + 1, "the end of the containers was written too");
        assert_eq!(names(&spans(uid)).join(" "), before);
    });
}

#[test]
fn a_pull_that_a_deletion_interrupts_is_a_failed_span_of_the_creation() {
    once(|| async {
        let uid = "e0000000-0000-4000-8000-000000000001";
        let world = world(uid, &says(&[("pull-delay", "10m")])).await;
        world.until("web", 5, |_| !named(&spans(uid), "sandbox").is_empty()).await;
        clock::sleep(Duration::from_secs(7)).await;
        assert!(named(&spans(uid), "pull").is_empty(), "it has not ended");
        world.api.delete("pods", "default", "web", None);
        world.gone("web", 3).await;
        clock::sleep(Duration::from_secs(1)).await;
        let all = spans(uid);
        assert_eq!(names(&all), ["admit", "sandbox", "pull"]);
        let pull = named(&all, "pull")[0];
        assert_eq!((&pull.status, took(pull).as_secs()), (&Status::error("interrupted"), 7));
        assert_eq!(pull.parent_span_id, Change::new(uid, 1).context().span_id());
        assert_eq!(attributes(pull)["container.image.name"], "nginx:1");
    });
}

#[test]
fn credentials_in_image_names_reach_no_span() {
    once(|| async {
        let cases = [
            ("me:secret@localhost:5000/a/b", "localhost:5000/a/b"),
            ("me:secret@nginx", "nginx"),
            ("me:pa/secret@host/a", "host/a"),
            ("https://me:secret@host/a?signature=secret", "host/a"),
        ];
        for (index, (written, shown)) in cases.into_iter().enumerate() {
            let uid = &format!("f0000000-0000-4000-8000-{:012}", index + 1);
            let world = world(uid, &json!({"spec": {"containers": [{"name": "main", "image": written}]}})).await;
            let refused = |pod: &Value| {
                let message = container(pod)["state"]["waiting"]["message"].as_str();
                message.is_some_and(|message| message.contains(written))
            };
            world.until("web", 5, refused).await;
            let all = spans(uid);
            let pull = named(&all, "pull")[0];
            let why = format!(
                "InvalidImageName: Failed to apply default image tag \"{shown}\": couldn't parse image name \"{shown}\": invalid reference format"
            );
            assert_eq!(pull.status, Status::error(why));
            assert_eq!(attributes(pull)["container.image.name"], shown);
            assert!(!format!("{all:?}").contains("secret"), "{all:?}");
        }
    });
}

#[test]
fn without_a_life_a_step_is_its_work_alone_and_describes_nothing() {
    once(|| async {
        let attributes = || panic!("nobody reads them");
        let work = async { Err::<(), Vec<crate::event_sender::WarningEvent>>(vec![]) };
        assert!(crate::trace::step(None, "volumes", attributes, work).await.is_err());
    });
}

#[test]
fn calls_of_a_step_to_the_runtime_carry_the_steps_context() {
    once(|| async {
        traces::start(Settings::ring());
        let uid = "f1000000-0000-4000-8000-000000000001";
        let object = crate::testing::pod("web", &json!({"metadata": {"uid": uid}})).to_string();
        let object = oarlock_client::decode(crate::testing::core("pods").ty, object.as_bytes()).unwrap();
        let item = Arc::new(oarlock_informer::Item::of(&object, oarlock_meta::Revision(1)));
        let now = crate::pod::Now { at: clock::now(), wall: 1_800_000_000 };
        let life = crate::trace::Life::of(&crate::pod::Pod::new(item, None, false, now), &"n1".into());
        let work = async { Ok::<_, Vec<crate::event_sender::WarningEvent>>(traces::current()) };
        let seen = crate::trace::step(life.as_ref(), "sandbox", Vec::new, work).await.unwrap();
        let all = spans(uid);
        let step = &named(&all, "sandbox")[0].span_context;
        assert_eq!((seen.trace_id(), seen.span_id()), (step.trace_id(), step.span_id()));
    });
}

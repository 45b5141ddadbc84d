//! The scheduler's spans in the lives of pods.

use oarlock_telemetry::traces::opentelemetry::KeyValue;
use oarlock_telemetry::traces::opentelemetry::trace::{SpanContext, Status};
use oarlock_telemetry::traces::opentelemetry_sdk::trace::SpanData;
use oarlock_telemetry::traces::{self, Change, Settings};

use super::*;

/// Returns the spans in the life of the pod of this name, by their record.
fn spans(name: &str) -> Vec<Arc<SpanData>> {
    traces::ring().unwrap().trace(Change::new(&format!("uid-{name}"), 1).trace())
}

/// Returns name and failure of each span in the life of the pod of this name.
fn steps(name: &str) -> Vec<(String, String)> {
    let why = |status: &Status| {
        if let Status::Error { description } = status { description.to_string() } else { String::new() }
    };
    spans(name).iter().map(|span| (span.name.to_string(), why(&span.status))).collect()
}

fn step(name: &str, why: &str) -> (String, String) {
    (name.to_owned(), why.to_owned())
}

fn attribute(span: &SpanData, key: &str) -> String {
    span.attributes
        .iter()
        .find(|known| known.key.as_str() == key)
        .map_or_else(String::new, |known| known.value.to_string())
}

#[test]
fn the_way_of_a_pod_through_the_scheduler_is_in_its_life() {
    traces::start(Settings::ring());
    play(21, |fake| async move {
        fake.put("nodes", node("n1"));
        fake.put("pods", pod("traced", "1"));
        fake.until("it is bound", |_| spans("traced").len() == 3).await;
        assert_eq!(steps("traced"), ["queue", "decide", "bind"].map(|name| step(name, "")));
        let spans = spans("traced");
        let root = Change::new("uid-traced", 1).context().span_id();
        for span in &spans {
            assert_eq!(span.parent_span_id, root, "{span:?}");
            assert_eq!(
                (attribute(span, "k8s.pod.name"), attribute(span, "k8s.namespace.name")),
                ("traced".into(), "default".into())
            );
        }
        assert_eq!(
            (attribute(&spans[1], "k8s.node.name"), attribute(&spans[2], "k8s.node.name")),
            ("n1".into(), "n1".into())
        );
        assert!(spans.is_sorted_by_key(|span| span.start_time), "{spans:?}");
    });
}

#[test]
fn each_attempt_of_an_unschedulable_pod_is_in_its_life_from_the_end_of_the_one_before() {
    traces::start(Settings::ring());
    play(22, |fake| async move {
        fake.put("nodes", node("n1"));
        fake.put("pods", pod("traced-big", "3"));
        fake.until("a condition", |fake| condition(fake, "traced-big").is_object()).await;
        assert_eq!(steps("traced-big"), [step("queue", ""), step("decide", "unschedulable")]);
        clock::sleep(Duration::from_secs(30)).await;
        let mut large = node("n2");
        large["status"]["allocatable"]["cpu"] = json!("8");
        fake.put("nodes", large);
        fake.until("it is bound", |_| steps("traced-big").contains(&step("bind", ""))).await;
        let spans = spans("traced-big");
        let [first, decide, second] = &spans[..3] else { panic!("{spans:?}") };
        assert_eq!(
            (attribute(first, "oarlock.scheduler.attempt"), attribute(second, "oarlock.scheduler.attempt")),
            ("1".into(), "2".into())
        );
        assert!(second.start_time >= decide.start_time, "{spans:?}");
        let waited = second.end_time.duration_since(second.start_time).unwrap();
        assert!(waited >= Duration::from_secs(30) && waited < Duration::from_secs(60), "{waited:?}");
    });
}

#[test]
fn a_binding_that_is_refused_is_a_failed_step() {
    traces::start(Settings::ring());
    play(23, |fake| async move {
        fake.put("nodes", node("n1"));
        fake.fail_bindings(&[Fault::Refuse]);
        fake.put("pods", pod("traced-refused", "1"));
        fake.until("it is bound", |_| steps("traced-refused").contains(&step("bind", ""))).await;
        let binds: Vec<_> = steps("traced-refused").into_iter().filter(|(name, _)| name == "bind").collect();
        assert_eq!(binds, [step("bind", "not written"), step("bind", "")]);
    });
}

/// Runs two schedulers on a bus and one node: an arbiter without shards, and a proposer with all of them.
fn play_two<F: Future<Output = ()>>(seed: u64, story: impl Fn(Fake) -> F) {
    Universe::run(seed, || async {
        let fake = Fake::default();
        fake.put("nodes", node("n1"));
        let exchange = Exchange::new();
        let spawn = async |name: &str, units: BTreeMap<Unit, Revision>, all: &BTreeMap<Unit, Revision>| {
            let system = System::start(Options::default()).await.unwrap();
            let (holder, placement) = Placement::shared();
            holder.set_among(units, all.clone());
            let config = Config { placement, bus: Some(member(&exchange, name)), ..Config::default() };
            Scheduler::spawn(&system, Client::new(Arc::new(fake.clone())), config).await.unwrap();
            (system, holder)
        };
        let arbiter = BTreeMap::from([(crate::arbiter_unit(), Revision(1))]);
        let all: BTreeMap<_, _> = shards().chain(arbiter.clone()).collect();
        let one = spawn("arbiter", arbiter, &all).await;
        let other = spawn("proposer", shards().collect(), &all).await;
        clock::sleep(Duration::from_secs(1)).await;
        story(fake).await;
        for (system, _) in [one, other] {
            shutdown::shutdown(&system, shutdown::Graces::default()).await;
        }
    });
}

#[test]
fn proposer_and_arbiter_record_their_own_steps_of_one_life() {
    traces::start(Settings::ring());
    play_two(24, |fake| async move {
        fake.put("pods", pod("traced-remote", "1"));
        fake.until("its proposal has a verdict", |_| steps("traced-remote").contains(&step("propose", ""))).await;
        let mut names: Vec<_> = steps("traced-remote").into_iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        // Nothing is relayed before the first proposal.
        assert_eq!(names, ["arbiter", "bind", "decide", "propose", "queue"]);
        assert!(steps("traced-remote").iter().all(|(_, why)| why.is_empty()), "{:?}", steps("traced-remote"));
    });
}

/// Returns the spans that the queueing of the pod of this name is linked with.
fn hints(name: &str) -> Vec<SpanContext> {
    let spans = spans(name);
    let queue = spans.iter().find(|span| span.name == "queue").unwrap_or_else(|| panic!("{spans:?}"));
    assert!(queue.links.iter().all(|link| link.attributes == [KeyValue::new(traces::RELATION, "hint")]), "{queue:?}");
    queue.links.iter().map(|link| link.span_context.clone()).collect()
}

#[test]
fn the_queueing_of_a_relayed_pod_is_linked_with_the_message_that_brought_it() {
    traces::start(Settings::ring());
    play_two(26, |fake| async move {
        let proposed = async |name: &str| {
            fake.until("its proposal has a verdict", |_| steps(name).contains(&step("propose", ""))).await;
        };
        // The proposer's own watch brings the first pods; then it follows the arbiter's messages.
        for number in 0..4 {
            let name = format!("watched-{number}");
            fake.put("pods", pod(&name, "10m"));
            proposed(&name).await;
            clock::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(hints("watched-0"), []);
        let names = ["relayed-0", "relayed-1", "relayed-2"];
        names.iter().for_each(|name| fake.put("pods", pod(name, "10m")));
        for name in names {
            proposed(name).await;
            let [hint] = &hints(name)[..] else { panic!("{:?}", hints(name)) };
            let message = traces::ring().unwrap().trace(hint.trace_id());
            let message = message.iter().find(|span| span.span_context.span_id() == hint.span_id()).unwrap();
            assert_eq!(message.name, "relay");
            // The message's span is in the life of one of its pods and is linked with the lives of the others, so each pod's graph has it.
            let life = Change::new(&format!("uid-{name}"), 1).context();
            let linked = message.links.iter().any(|link| link.span_context.span_id() == life.span_id());
            assert!(message.parent_span_id == life.span_id() || linked, "{message:?}");
            assert!(message.end_time >= message.start_time && message.status == Status::Unset, "{message:?}");
        }
    });
}

#[test]
fn a_proposal_without_an_answer_ends_with_the_wait_for_it_and_not_with_the_look_at_the_cache_after_it() {
    traces::start(Settings::ring());
    play_beside(25, |_system, fake, mut decider| async move {
        clock::sleep(Duration::from_secs(1)).await;
        fake.put("pods", pod("traced-unanswered", "1"));
        assert_eq!(decider.proposed().await, ["traced-unanswered"]);
        // The cache does not get this pod, so the look lasts as long as it may.
        fake.hide_bindings(true);
        let mut elsewhere = pod("elsewhere", "1");
        elsewhere["spec"]["nodeName"] = json!("n2");
        fake.put("pods", elsewhere);
        clock::sleep(Duration::from_secs(12)).await;
        let spans = spans("traced-unanswered");
        let proposals: Vec<_> = spans.iter().filter(|span| span.name == "propose").collect();
        // The pod is proposed again after the look, to nobody.
        let [first, ..] = &proposals[..] else { panic!("{spans:?}") };
        assert_eq!(first.status, Status::error("no verdict"));
        let took = first.end_time.duration_since(first.start_time).unwrap();
        assert_eq!(took.as_secs(), 10, "the deadline of the answer");
    });
}

//! Tests of the receiving side of relayed pods.

use oarlock_bus::{Exchange, Identity};
use oarlock_informer::Delta;
use oarlock_runtime::Universe;
use oarlock_telemetry::traces::opentelemetry::trace::{SpanContext, TraceFlags, TraceState};
use oarlock_telemetry::traces::{Change, Settings};
use serde_json::json;

use super::*;
use crate::engine::Decision;
use crate::queue::{Popped, Stamp};

const UID: &str = "uid-hinted";

/// Returns a message with one new pod.
fn message() -> wire::Stretch {
    let sample = json!({
        "metadata": {"name": "sample", "namespace": "default", "generation": 1},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "x"}]},
    });
    let sample = serde_json::to_vec(&sample).unwrap().into();
    let change = wire::Change {
        revision: 12,
        name: "hinted".to_owned(),
        uid: UID.to_owned(),
        like: 1,
        ..wire::Change::default()
    };
    wire::Stretch { epoch: 2, series: 5, from: 11, to: 12, samples: vec![sample], changes: vec![change] }
}

/// Sends a message to another member within a span of the sender, and returns the hint that arrives.
async fn sent_within(span: &SpanContext, message: &wire::Stretch) -> Hint {
    let exchange = Exchange::new();
    let member = |name| Bus::memory(&exchange, Identity::new(Role::Scheduler, name).unwrap());
    let (sender, receiver) = (member("sender"), member("receiver"));
    let pattern = Pattern::feed(Role::Scheduler, TOPIC).unwrap();
    let mut hints = receiver.listen(&pattern, RECEIVE_CAPACITY).await.unwrap();
    let subject = Subject::feed(Role::Scheduler, TOPIC).unwrap();
    traces::within(Some(span.clone()), async { sender.hint(&subject, message) }).await.unwrap();
    loop {
        if let HintEvent::Hint(hint) = hints.next().await {
            return hint;
        }
    }
}

#[test]
fn a_sampled_hint_is_linked_with_what_it_begins_and_has_none_of_it_sampled() {
    traces::start(Settings::ring());
    Universe::run(27, || async {
        let sender = SpanContext::new(0xa.into(), 0xb.into(), TraceFlags::SAMPLED, false, TraceState::NONE);
        let hint = sent_within(&sender, &message()).await;
        assert!(hint.trace().is_some_and(SpanContext::is_sampled), "{:?}", hint.trace());

        let (pods, contexts) = (Arc::<Cache<PodView>>::default(), Arc::<HintContexts>::default());
        let mut sink = Sink { pods: Arc::clone(&pods), samples: Samples::default(), contexts: Arc::clone(&contexts) };
        sink.apply(&hint, Some(Revision(2)));
        let (_, received) = stretch::open(message(), &pods, &mut sink.samples).unwrap();
        let [Delta::Set(pod)] = &received.deltas[..] else { panic!("{received:?}") };
        let (pod, at) = (Arc::clone(&pod.value.info), Stamp::default());
        let popped = Popped { pod, queued: at, attempt: 1, first_attempt: at, taken: at };
        let now = clock::now();
        spans::decided(&Decision::<()>::Propose { popped, node: "n1".into() }, now, now, &contexts);

        let life = Change::new(UID, 1).context();
        let spans = traces::ring().unwrap().trace(life.trace_id());
        assert_eq!(spans.iter().map(|span| &*span.name).collect::<Vec<_>>(), ["queue", "decide"]);
        for span in &spans {
            assert_eq!(span.parent_span_id, life.span_id(), "{span:?}");
            assert!(!span.span_context.is_sampled(), "{span:?}");
        }
        let [link] = &spans[0].links[..] else { panic!("{:?}", spans[0]) };
        let linked = &link.span_context;
        assert_eq!((linked.trace_id(), linked.span_id(), linked.is_sampled()), (0xa.into(), 0xb.into(), true));
    });
}

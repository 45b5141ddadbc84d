//! Export over both transports: what arrives, and what a bad collector costs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use oarlock_config::{OtlpProtocol, TracingExport};
use oarlock_runtime::shutdown::{self, Graces};
use oarlock_runtime::{Options, System, clock};
use oarlock_telemetry::traces::{Change, DropReason, ExportQueue, Ratio, Sampler, Step};
use oarlock_testkit::otlp::{Answer, Collector, text};
use oarlock_testkit::wait;
use opentelemetry::trace::{SpanContext, TraceFlags, TraceState};

pub(crate) const BOTH: [OtlpProtocol; 2] = [OtlpProtocol::Grpc, OtlpProtocol::Http];
const UID: &str = "6d0a3c52-9e1f-4b7a-8c55-0123456789ab";

/// Settings of an export to a collector at this address, without TLS and compression.
pub(crate) fn settings(protocol: OtlpProtocol, address: std::net::SocketAddr) -> TracingExport {
    let path = if protocol == OtlpProtocol::Http { "/v1/traces" } else { "" };
    TracingExport {
        protocol,
        endpoint: format!("http://{address}{path}"),
        headers: vec![("authorization".to_owned(), "Bearer x".to_owned())],
        gzip: false,
        timeout: Duration::from_secs(5),
        authorities: None,
        sampler: Sampler::parent_based(Ratio::ALL),
        delay: Duration::from_millis(10),
        queue: 64,
        batch: 32,
        resource: vec![("service.name".to_owned(), "test".to_owned())],
    }
}

/// Starts an exporter with its queue.
pub(crate) async fn start(settings: &TracingExport) -> (System, Arc<ExportQueue>) {
    let system = System::start(Options::default()).await.unwrap();
    let queue = Arc::new(ExportQueue::new(settings.queue, settings.batch));
    oarlock_exporter::export(&system, settings, Arc::clone(&queue)).await.unwrap();
    (system, queue)
}

async fn exporter(protocol: OtlpProtocol, address: std::net::SocketAddr) -> (System, Arc<ExportQueue>) {
    start(&settings(protocol, address)).await
}

pub(crate) fn step(name: &'static str) -> Step {
    Step::of(&Change::new(UID, 1), name)
}

pub(crate) fn push(queue: &ExportQueue, step: Step) {
    queue.push(Arc::new(step.finish()));
}

#[tokio::test]
async fn spans_arrive_as_they_were_recorded() {
    let owner = SpanContext::new(0xdef.into(), 0xe.into(), TraceFlags::SAMPLED, false, TraceState::NONE);
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    for protocol in BOTH {
        let collector = Collector::start(Answer::Accept).await;
        let (_system, queue) = exporter(protocol, collector.address).await;
        let pull = step("pull").began(at(5)).ended(at(7)).attribute("number", 7).attribute("flag", true);
        push(&queue, pull.attribute("k8s.pod.name", "p").linked("owner", &owner).failed("no such image"));
        let span = collector.spans_at_least(1).await.remove(0);
        let change = Change::new(UID, 1);
        assert_eq!(span.trace_id, change.trace().to_bytes());
        assert_eq!(span.parent_span_id, change.context().span_id().to_bytes());
        assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), (5_000_000_000, 7_000_000_000));
        assert_eq!(text(&span.attributes, "k8s.pod.name").as_deref(), Some("p"));
        assert_eq!(span.links[0].trace_id, owner.trace_id().to_bytes());
        assert_eq!(text(&span.links[0].attributes, "oarlock.link.relation").as_deref(), Some("owner"));
        let status = span.status.unwrap();
        assert_eq!((status.code, status.message.as_str()), (2, "no such image"));
        let (headers, sent) = collector.requests().remove(0);
        assert_eq!(headers.get("authorization").unwrap(), "Bearer x");
        let resource = sent.resource_spans[0].resource.clone().unwrap();
        assert_eq!(text(&resource.attributes, "service.name").as_deref(), Some("test"));
    }
}

#[tokio::test]
async fn a_collector_that_comes_back_gets_the_spans_again() {
    for protocol in BOTH {
        let collector = Collector::start(Answer::Unavailable).await;
        let (_system, queue) = exporter(protocol, collector.address).await;
        push(&queue, step("early"));
        collector.seen(1).await;
        collector.answer(Answer::Accept);
        assert_eq!(collector.spans_at_least(1).await[0].name, "early");
    }
}

#[tokio::test]
async fn a_refused_batch_does_not_hold_up_the_next() {
    for protocol in BOTH {
        let collector = Collector::start(Answer::Refuse).await;
        let (_system, queue) = exporter(protocol, collector.address).await;
        push(&queue, step("refused"));
        collector.seen(1).await;
        collector.answer(Answer::Accept);
        push(&queue, step("next"));
        assert_eq!(collector.spans_at_least(1).await[0].name, "next");
        assert_eq!(queue.dropped(DropReason::Failed), 1);
    }
}

/// How a collector with a full disk may answer, and the most requests that one batch then costs: without a time for a second attempt, with one that is
/// within the batch's deadline, and with one that is beyond it.
const FULL: [(Answer, usize); 3] = [
    (Answer::Full(None), 1),
    (Answer::Full(Some(Duration::from_secs(1))), 4),
    (Answer::Full(Some(Duration::from_secs(60))), 1),
];

/// Waits until a queue is empty and each of so many spans is exported or counted as dropped. Returns how many are exported, not accepted by the collector, and without room in the queue.
async fn settled(queue: &ExportQueue, spans: u64) -> (u64, u64, u64) {
    let counts = || (queue.exported(), queue.dropped(DropReason::Failed), queue.dropped(DropReason::QueueFull));
    let all_counted = async {
        loop {
            let (exported, failed, full) = counts();
            if queue.is_empty() && exported + failed + full == spans {
                return;
            }
            clock::sleep(Duration::from_millis(10)).await;
        }
    };
    wait::step("every span is counted", all_counted).await;
    counts()
}

#[tokio::test]
async fn a_collector_with_a_full_disk_costs_spans_until_the_disk_is_free_and_every_one_is_counted() {
    for protocol in BOTH {
        for (full, most) in FULL {
            let collector = Collector::start(full).await;
            let settings = settings(protocol, collector.address);
            let (_system, queue) = start(&settings).await;
            push(&queue, step("refused"));
            assert_eq!(settled(&queue, 1).await, (0, 1, 0), "{protocol:?}, {full:?}");
            let attempts = collector.requests_seen();
            assert!((1..=most).contains(&attempts) && (attempts > 1) == (most > 1), "{full:?}: {attempts}");

            // The code that ends these spans lets nothing else run: whoever waited here would wait for ever.
            let (waits, more) = (u64::try_from(settings.queue).unwrap(), 136);
            for _ in 0..waits + more {
                push(&queue, step("many"));
                assert!(queue.len() <= settings.queue, "{}", queue.len());
            }
            collector.answer(Answer::Accept);
            let spans = waits + more + 1;
            assert_eq!(settled(&queue, spans).await, (waits, 1, more), "{protocol:?}, {full:?}");
            push(&queue, step("after"));
            assert_eq!(settled(&queue, spans + 1).await, (waits + 1, 1, more));
            assert_eq!(collector.spans().last().unwrap().name, "after");
        }
    }
}

#[tokio::test]
async fn a_batch_that_a_full_disk_has_refused_is_sent_again_at_the_time_that_the_collector_names() {
    for protocol in BOTH {
        let collector = Collector::start(Answer::Full(Some(Duration::from_secs(1)))).await;
        let (_system, queue) = exporter(protocol, collector.address).await;
        let began = clock::now();
        push(&queue, step("early"));
        collector.seen(1).await;
        collector.answer(Answer::Accept);
        assert_eq!(collector.spans_at_least(1).await[0].name, "early");
        assert!(began.elapsed() >= Duration::from_secs(1), "{protocol:?}: sooner than the collector wanted");
    }
}

#[tokio::test]
async fn a_collector_that_hangs_does_not_keep_the_process() {
    for protocol in BOTH {
        let collector = Collector::start(Answer::Hang).await;
        let (system, queue) = exporter(protocol, collector.address).await;
        push(&queue, step("kept"));
        collector.seen(1).await;
        let report = wait::step("the shutdown", shutdown::shutdown(&system, Graces::default())).await;
        assert_eq!(report.late().count(), 0, "the exporter ends within its grace");
        assert_eq!(queue.dropped(DropReason::Shutdown), 1);
    }
}

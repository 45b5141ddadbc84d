//! The exporter's loop in virtual time, with collectors that answer as they are told to.

use std::collections::VecDeque;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use oarlock_runtime::shutdown::{self, Graces};
use oarlock_runtime::{Options, System};
use oarlock_telemetry::traces::{Change, Step};
use parking_lot::Mutex;

use super::*;
use crate::EXPORTER;

/// What a collector does with a batch.
#[derive(Clone, Copy, Debug)]
enum Act {
    Accept,
    /// Accepts after 1.4 seconds.
    AcceptLate,
    Refuse,
    Hang,
    Panic,
}

/// A collector that follows a list, and then does the same for ever.
struct Scripted {
    script: Mutex<VecDeque<Act>>,
    then: Act,
    seen: Mutex<Vec<usize>>,
}

impl Collector for Scripted {
    fn send(&self, batch: Vec<SpanData>) -> BoxFuture<'_, Result<(), String>> {
        self.seen.lock().push(batch.len());
        let act = self.script.lock().pop_front().unwrap_or(self.then);
        async move {
            match act {
                Act::Accept => Ok(()),
                Act::AcceptLate => {
                    clock::sleep(Duration::from_millis(1400)).await;
                    Ok(())
                }
                Act::Refuse => Err("refused".to_owned()),
                Act::Hang => std::future::pending().await,
                Act::Panic => panic!("the exporter dies"),
            }
        }
        .boxed()
    }
}

struct Bed {
    system: System,
    queue: Arc<ExportQueue>,
    collector: Arc<Scripted>,
}

impl Bed {
    async fn start(script: &[Act], then: Act) -> Self {
        let system = System::start(Options { watchdog: None, ..Options::default() }).await.unwrap();
        let queue = Arc::new(ExportQueue::new(100, 10));
        let script = Mutex::new(script.iter().copied().collect());
        let collector = Arc::new(Scripted { script, then, seen: Mutex::default() });
        let (timeout, delay) = (Duration::from_secs(10), Duration::from_secs(5));
        let parts = Parts { queue: Arc::clone(&queue), collector: collector.clone(), timeout, delay };
        system.spawn_loop(&EXPORTER, "test", move |ctx| run(ctx, parts.clone())).await.unwrap();
        Self { system, queue, collector }
    }

    fn spans(&self, count: usize) {
        for _ in 0..count {
            self.queue.push(Arc::new(Step::of(&Change::new("test", 1), "test").finish()));
        }
    }

    /// Ends the system; returns how long that took.
    async fn stop(self) -> Duration {
        let began = clock::now();
        let _report = shutdown::shutdown(&self.system, Graces::default()).await;
        began.elapsed()
    }

    async fn pass(seconds: u64) {
        clock::sleep(Duration::from_secs(seconds)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn spans_wait_for_a_batch_and_no_longer_than_the_delay() {
    let bed = Bed::start(&[], Act::Accept).await;
    bed.spans(25);
    Bed::pass(1).await;
    assert_eq!(*bed.collector.seen.lock(), [10, 10]);
    Bed::pass(5).await;
    assert_eq!((bed.collector.seen.lock().clone(), bed.queue.exported()), (vec![10, 10, 5], 25));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_not_accepted_is_counted_and_does_not_hold_up_the_next() {
    let bed = Bed::start(&[Act::Refuse], Act::Accept).await;
    bed.spans(20);
    Bed::pass(10).await;
    assert_eq!(bed.collector.seen.lock().len(), 2);
    assert_eq!((bed.queue.exported(), bed.queue.dropped(DropReason::Failed)), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_does_not_answer_costs_a_batch_after_its_deadline() {
    let bed = Bed::start(&[Act::Hang], Act::Accept).await;
    bed.spans(20);
    Bed::pass(10).await;
    assert_eq!((bed.queue.exported(), bed.queue.dropped(DropReason::Failed)), (0, 0));
    Bed::pass(2).await;
    assert_eq!((bed.queue.exported(), bed.queue.dropped(DropReason::Failed)), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_never_answers_costs_spans_and_every_one_is_counted() {
    let bed = Bed::start(&[], Act::Hang).await;
    for _ in 0..50 {
        bed.spans(100);
        Bed::pass(1).await;
    }
    let dropped = bed.queue.dropped(DropReason::QueueFull) + bed.queue.dropped(DropReason::Failed);
    // At most one batch is in hand.
    let counted = dropped + bed.queue.len() as u64;
    assert!((4990..=5000).contains(&counted) && bed.queue.len() <= 100, "{counted}");
}

#[tokio::test(start_paused = true)]
async fn a_process_with_a_hanging_collector_ends_within_two_seconds() {
    let bed = Bed::start(&[], Act::Hang).await;
    bed.spans(100);
    Bed::pass(1).await;
    let queue = Arc::clone(&bed.queue);
    let took = bed.stop().await;
    assert!(took <= FLUSH_TIME, "the batch in hand and the others have one deadline: {took:?}");
    assert_eq!((queue.dropped(DropReason::Shutdown), queue.len()), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_accepted_after_the_request_to_stop_leaves_the_others_no_more_time() {
    let bed = Bed::start(&[Act::AcceptLate], Act::Hang).await;
    bed.spans(100);
    Bed::pass(1).await;
    let queue = Arc::clone(&bed.queue);
    let took = bed.stop().await;
    assert!(took <= FLUSH_TIME, "{took:?}");
    assert_eq!((queue.exported(), queue.dropped(DropReason::Shutdown)), (10, 90));
}

#[tokio::test(start_paused = true)]
async fn what_waits_at_the_end_is_sent() {
    let bed = Bed::start(&[], Act::Accept).await;
    bed.spans(34);
    let queue = Arc::clone(&bed.queue);
    bed.stop().await;
    assert_eq!(queue.exported(), 34);
}

#[tokio::test(start_paused = true)]
async fn an_exporter_that_dies_is_started_again_and_its_batch_is_counted() {
    let bed = Bed::start(&[Act::Panic, Act::Panic], Act::Accept).await;
    bed.spans(30);
    Bed::pass(10).await;
    assert_eq!((bed.queue.dropped(DropReason::Failed), bed.queue.exported()), (20, 10));
    let status = bed.system.snapshot().into_iter().find(|status| status.kind == EXPORTER.name).unwrap();
    assert_eq!(status.restarts, 2);
}

//! Traces that are off allocate nothing.

#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one only counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use oarlock_telemetry::traces::{self, Change, ExportQueue, Ratio, Sampler, Settings, Step, TARGET};
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ended_threads_count_nothing = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory is the system allocator's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts the allocations of so many requests, each with a child and a step of a life.
#[expect(clippy::unwrap_used, reason = "a test")]
fn allocations(requests: usize) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let change = Change::new("6d0a3c52-9e1f-4b7a-8c55-0123456789ab", 1);
    runtime.block_on(async {
        let before = ALLOCATIONS.get();
        for _ in 0..requests {
            let request = traces::request_context(None);
            traces::within(request.clone(), async {
                let child = tracing::info_span!(target: TARGET, "etcd");
                traces::within(Some(traces::current()), async { drop(child) }).await;
            })
            .await;
            traces::record_request(|| Step::request(request.unwrap(), None, "request").text("http.route", "/api"));
            traces::record(|| Step::of(&change, "commit").text("text", &format!("{requests}")));
        }
        ALLOCATIONS.get() - before
    })
}

/// Kills the work of an exported request in the midst of a call; returns how many spans were open until then.
fn open_of_killed_work() -> u64 {
    let layer = tracing_subscriber::registry().with(traces::layer());
    tracing::subscriber::with_default(layer, || {
        let call = tracing::info_span!(target: TARGET, "killed");
        let work = traces::within(traces::request_context(None), std::future::pending::<()>().instrument(call));
        let mut work = std::pin::pin!(Some(work));
        let waker = std::task::Waker::noop();
        let polled = work.as_mut().as_pin_mut().map(|work| work.poll(&mut std::task::Context::from_waker(waker)));
        assert!(polled.is_some_and(|polled| polled.is_pending()));
        let open = traces::open();
        work.set(None);
        open
    })
}

#[test]
fn traces_that_are_off_allocate_nothing() {
    oarlock_telemetry::init_logs("error", oarlock_telemetry::logs::Format::Text).unwrap();
    let _of_the_first_use = allocations(1);
    assert_eq!((allocations(1000), traces::recording()), (0, false));
    let queue = std::sync::Arc::new(ExportQueue::new(100, 100));
    assert!(traces::start(Settings::exported(Sampler::parent_based(Ratio::ALL), queue)));
    let subscriber = tracing_subscriber::registry().with(traces::layer());
    tracing::subscriber::with_default(subscriber, || assert!(allocations(10) > 10, "the allocator counts"));
    assert_eq!((open_of_killed_work(), traces::open()), (1, 0), "what is killed leaves no span open");
    let spans = traces::ring().unwrap().all();
    let of = |name: &str| spans.iter().filter(|span| span.name == name).cloned().collect::<Vec<_>>();
    let (requests, children, steps) = (of("request"), of("etcd"), of("commit"));
    assert_eq!((requests.len(), children.len(), steps.len()), (10, 10, 10));
    let has_parent = |child: &_| requests.iter().any(|span| span.span_context.span_id() == *child);
    assert!(children.iter().all(|child| has_parent(&child.parent_span_id)));
}

use std::sync::Arc;

use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

async fn next(queue: &WorkQueue<&'static str>) -> Option<&'static str> {
    clock::timeout(Duration::from_secs(3600), queue.get()).await.unwrap_or(None)
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_once_and_in_order() {
    let queue = WorkQueue::default();
    ["a", "b", "a", "c", "b"].into_iter().for_each(|key| queue.add(key));
    assert_eq!(queue.stats().ready, 3);
    for key in ["a", "b", "c"] {
        assert_eq!(next(&queue).await, Some(key));
        queue.done(&key);
    }
    assert_eq!(next(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_worked_on_comes_again_only_when_done() {
    let queue = WorkQueue::default();
    queue.add("a");
    assert_eq!(next(&queue).await, Some("a"));
    queue.add("a");
    queue.add("a");
    queue.add("b");
    assert_eq!(next(&queue).await, Some("b"));
    assert_eq!(queue.stats().ready, 0);
    queue.done(&"a");
    assert_eq!(next(&queue).await, Some("a"));
    queue.done(&"a");
    assert_eq!(next(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn of_several_delays_the_shortest_holds() {
    let queue = WorkQueue::default();
    let began = clock::now();
    queue.add_after("a", ms(500));
    queue.add_after("a", ms(200));
    queue.add_after("a", ms(900));
    queue.add_after("b", ms(100));
    assert_eq!(queue.stats().delayed, 2);
    for (key, at) in [("b", 100), ("a", 200)] {
        assert_eq!(next(&queue).await, Some(key));
        assert!((ms(at)..ms(at + 2)).contains(&began.elapsed()), "{key} came after {:?}", began.elapsed());
        queue.done(&key);
    }
    assert_eq!(next(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_delay_wakes_a_waiter_that_sleeps_until_a_later_one() {
    let queue = Arc::new(WorkQueue::default());
    queue.add_after("late", Duration::from_secs(100));
    let began = clock::now();
    let (first, ()) = futures::join!(queue.get(), async {
        clock::sleep(ms(10)).await;
        queue.add_after("soon", ms(10));
    });
    assert_eq!(first, Some("soon"));
    assert!(began.elapsed() < ms(25));
}

#[tokio::test(start_paused = true)]
async fn failures_wait_5_ms_doubling_to_1000_s_until_forgotten() {
    let queue = WorkQueue::default();
    let pauses: Vec<Duration> = (0..20).map(|_| queue.add_failed("a")).collect();
    assert_eq!(&pauses[..4], [ms(5), ms(10), ms(20), ms(40)]);
    assert_eq!((pauses[17], pauses[18], pauses[19]), (ms(655_360), ms(1_000_000), ms(1_000_000)));
    assert_eq!(queue.add_failed("b"), ms(5));
    queue.forget(&"a");
    assert_eq!((queue.failures(&"a"), queue.add_failed("a")), (0, ms(5)));
}

#[tokio::test(start_paused = true)]
async fn every_waiter_gets_a_key_and_the_end() {
    let queue = Arc::new(WorkQueue::default());
    let worker = || async {
        let mut taken = Vec::new();
        while let Some(key) = queue.get().await {
            taken.push(key);
            clock::sleep(ms(10)).await;
            queue.done(&key);
        }
        taken
    };
    let began = clock::now();
    let (a, b, c, ()) = futures::join!(worker(), worker(), worker(), async {
        clock::sleep(ms(5)).await;
        for key in 0..9 {
            queue.add(key);
        }
        queue.close();
        queue.add(100);
        queue.add_after(101, ms(1));
    });
    assert_eq!((a.len(), b.len(), c.len()), (3, 3, 3));
    assert!(began.elapsed() < ms(50), "{:?}", began.elapsed());
}

//! Measures the time of an ask over a real server on this machine: prints figures, asserts nothing about time.
//! `cargo test --release -p oarlock-bus --test bus -- --ignored --nocapture speed`

use std::time::Duration;

use futures::{StreamExt, stream};
use oarlock_bus::{AskError, Pattern, Role, Subject};
use oarlock_meta::Revision;
use tokio::time::Instant;

use crate::server::{Server, who};

const LONG_BUDGET: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn speed() {
    let Some(server) = tokio::task::block_in_place(|| Server::start("")) else { return };
    let holder = server.join(who(Role::Scheduler, "holder")).await;
    let asker = server.join(who(Role::Scheduler, "asker")).await;
    let there = Subject::unit(Role::Scheduler, "arbiter", Revision(5), "propose").unwrap();
    let nobody = Subject::unit(Role::Scheduler, "arbiter", Revision(4), "propose").unwrap();
    let mut asks = holder.serve(&Pattern::unit(Role::Scheduler, "arbiter", Revision(5)).unwrap(), 4096).await.unwrap();
    let serving = async {
        while let Some(ask) = asks.next().await {
            ask.answer(&"yes".to_owned()).await.unwrap();
        }
    };
    let question = "x".repeat(200);
    let ask = |subject: Subject| {
        let (asker, question) = (&asker, &question);
        async move {
            let began = Instant::now();
            (asker.ask::<_, String>(&subject, question, LONG_BUDGET).await, began.elapsed())
        }
    };
    let measuring = async {
        for (what, subject, at_once, count) in [
            ("answered, one by one", &there, 1, 5_000),
            ("nobody there, one by one", &nobody, 1, 5_000),
            ("answered, 64 at once", &there, 64, 50_000),
        ] {
            let began = Instant::now();
            let asked = stream::iter(0..count).map(|_| ask(subject.clone())).buffer_unordered(at_once);
            let mut times: Vec<Duration> = asked
                .map(|(result, time)| {
                    assert!(matches!(result, Ok(_) | Err(AskError::NobodyThere)), "{result:?}");
                    time
                })
                .collect()
                .await;
            times.sort_unstable();
            let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
            let rate = f64::from(count) / began.elapsed().as_secs_f64();
            eprintln!("{what:<26} {rate:>9.0}/s   p50 {p50:?}   p99 {p99:?}");
        }
    };
    tokio::select! { () = measuring => {}, () = serving => {} }
}

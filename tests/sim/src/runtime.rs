//! The actor runtime under faults: every failure of an actor ends as its row says.

mod cast;
mod faults;
mod loops;
mod mailboxes;
mod seeds;
mod shutdowns;
mod trees;

use std::collections::BTreeMap;
use std::time::Duration;

use oarlock_runtime::trace::Event;
use oarlock_runtime::{ActorStatus, Instant, Options, System, clock};

/// One second, the unit of these tests.
const S: Duration = Duration::from_secs(1);

/// Starts a system in this universe.
async fn system() -> System {
    System::start(Options { host: "sim".into(), ..Options::default() }).await.unwrap()
}

/// Returns a deadline that no passing test meets.
fn soon() -> Instant {
    clock::after(3600 * S)
}

/// Returns the status of one actor.
fn status(system: &System, name: &str) -> ActorStatus {
    let all = system.snapshot();
    let found = all.iter().find(|s| format!("{}/{}", s.kind, s.key) == name);
    found.unwrap_or_else(|| panic!("no {name} in {all:?}")).clone()
}

/// Checks the safety rule of restarts in the trace: an incarnation is launched only after the previous one has ended.
fn assert_incarnations_never_overlap(events: &[Event]) {
    let mut alive: BTreeMap<&str, u64> = BTreeMap::new();
    for event in events {
        match event.what {
            "launch" => {
                let before = alive.insert(&event.who, event.n);
                assert_eq!(before, None, "{event}: launched while incarnation {before:?} is alive");
            }
            "exit" => assert_eq!(alive.remove(event.who.as_str()), Some(event.n), "{event}: who ended?"),
            _ => {}
        }
    }
}

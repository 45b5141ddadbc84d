use std::collections::BTreeMap;
use std::time::Duration;

use oarlock_meta::Status;
use oarlock_runtime::{System, Universe, clock};
use tokio::sync::mpsc::Receiver;

use super::*;
use crate::cache::Cache;
use crate::shared::SharedInformers;
use crate::testing::{Config, Fake, soon, system, until};

const EPOCH: Revision = Revision(7);

type Contents = BTreeMap<String, String>;

async fn informer(system: &System, fake: &Fake, name: &str) -> Arc<Cache<Config>> {
    let cache = SharedInformers::new(system.clone(), fake.client(), name).all::<Config>().await.unwrap();
    cache.synced(soon()).await.unwrap();
    cache
}

fn contents(cache: &Cache<Config>) -> Contents {
    cache.list().iter().map(|item| (item.meta.name().to_owned(), item.value.value.clone())).collect()
}

fn chance(of: u64) -> bool {
    rng::below(of) == 0
}

/// Two informers of one resource, with the changes that the first publishes.
async fn pair(fake: &Fake) -> (System, Arc<Cache<Config>>, Arc<Cache<Config>>, Receiver<Read<Config>>) {
    let system = system().await;
    let (teller, hearer) = (informer(&system, fake, "teller").await, informer(&system, fake, "hearer").await);
    let told = teller.relay().publish(64);
    hearer.relay().set_publisher_epoch(Some(EPOCH));
    (system, teller, hearer, told)
}

/// Passes each published change to `hand` while `story` runs.
async fn during(story: impl Future<Output = ()>, mut told: Receiver<Read<Config>>, hand: impl AsyncFn(Read<Config>)) {
    let carry = async {
        while let Some(read) = told.recv().await {
            hand(read).await;
        }
    };
    tokio::select! {
        () = carry => panic!("nothing is told any more"),
        () = story => {}
    }
}

async fn ten_changes(fake: &Fake, hearer: &Cache<Config>) {
    for step in 0..10 {
        fake.set("a", &step.to_string());
        hearer.at_least(fake.revision(), soon()).await.unwrap();
    }
}

#[test]
fn who_is_told_everything_watches_no_more() {
    Universe::sweep(0..8, || async {
        let fake = Fake::default();
        fake.set("a", "1");
        let (_system, teller, hearer, told) = pair(&fake).await;
        let story = async {
            ten_changes(&fake, &hearer).await;
            // Only the publisher's watch remains; the cut breaks it, and the publisher watches again.
            fake.cut();
            fake.delete("a");
            let revision = fake.set("b", "1");
            hearer.at_least(revision, soon()).await.unwrap();
            let shown = (contents(&hearer), contents(&teller), fake.asked("watch"));
            assert_eq!(shown, (fake.contents(), fake.contents(), 1));
        };
        during(story, told, async |read| hearer.relay().receive(EPOCH, read.stretch)).await;
        // No stretch follows: the listener resumes its own watch.
        let revision = fake.set("b", "2");
        hearer.at_least(revision, soon()).await.unwrap();
        assert_eq!((contents(&hearer), fake.asked("watch")), (fake.contents(), 2));
    });
}

#[test]
fn who_believes_nobody_any_more_watches_at_once() {
    Universe::sweep(0..8, || async {
        let fake = Fake::default();
        let (_system, _teller, hearer, told) = pair(&fake).await;
        during(ten_changes(&fake, &hearer), told, async |read| hearer.relay().receive(EPOCH, read.stretch)).await;
        let (began, asked) = (clock::now(), fake.asked("watch"));
        hearer.relay().set_publisher_epoch(None);
        until(|| fake.asked("watch") > asked).await;
        assert!(began.elapsed() < Duration::from_millis(10));
    });
}

#[test]
fn who_loses_much_of_what_is_told_watches_for_a_while() {
    Universe::sweep(0..8, || async {
        let fake = Fake::default();
        let (_system, _teller, hearer, told) = pair(&fake).await;
        let hand = async |read: Read<Config>| {
            if chance(2) {
                hearer.relay().receive(EPOCH, read.stretch);
            }
        };
        let (began, story) = (clock::now(), async {
            for _ in 0..20 {
                ten_changes(&fake, &hearer).await;
            }
        });
        during(story, told, hand).await;
        let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
        assert!(fake.asked("watch") <= 4 + 2 * seconds, "{} in {seconds} s", fake.asked("watch"));
    });
}

#[test]
fn that_nothing_has_happened_is_known_only_by_who_has_a_watch() {
    Universe::sweep(0..8, || async {
        let fake = Fake::default();
        let (_system, teller, _hearer, _told) = pair(&fake).await;
        until(|| teller.relay().watches()).await;
        fake.behave(|server| server.down = Some(Status::service_unavailable("away")));
        fake.cut();
        until(|| !teller.relay().watches()).await;
        fake.behave(|server| server.down = None);
        until(|| teller.relay().watches()).await;
    });
}

#[test]
fn a_cache_that_is_told_shows_at_each_revision_what_the_server_had() {
    Universe::sweep(0..48, || async {
        let fake = Fake::default();
        let (_system, _teller, hearer, told) = pair(&fake).await;
        let hand = async |read: Read<Config>| match rng::below(40) {
            0 => {}
            1 => clock::sleep(Duration::from_millis(rng::below(2000))).await,
            2 => hearer.relay().set_publisher_epoch(None),
            3 => hearer.relay().receive(Revision(EPOCH.get() - 1), read.stretch),
            _ => {
                hearer.relay().set_publisher_epoch(Some(EPOCH));
                hearer.relay().receive(EPOCH, read.stretch);
            }
        };
        let story = async {
            let mut history = BTreeMap::from([(fake.revision(), fake.contents())]);
            for step in 0..600 {
                let name = format!("c{}", rng::below(8));
                if chance(3) {
                    fake.delete(&name);
                } else {
                    fake.set(&name, &step.to_string());
                }
                history.insert(fake.revision(), fake.contents());
                if chance(60) {
                    fake.cut();
                }
                if chance(60) {
                    fake.compact();
                }
                if chance(2) {
                    clock::sleep(Duration::from_millis(rng::below(60))).await;
                }
                let then = history.range(..=hearer.revision()).next_back().unwrap();
                assert_eq!(contents(&hearer), *then.1, "at {}", hearer.revision());
            }
            hearer.at_least(fake.revision(), soon()).await.unwrap();
            assert_eq!(contents(&hearer), fake.contents());
        };
        during(story, told, hand).await;
    });
}

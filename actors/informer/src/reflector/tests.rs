use std::collections::BTreeMap;

use oarlock_runtime::{System, Universe, rng, shutdown};

use super::*;
use crate::changes::{Change, Changes, Notice};
use crate::key::Key;
use crate::shared::SharedInformers;
use crate::testing::{Config, Fake, soon, system, until};

async fn informer(fake: &Fake) -> (System, Arc<Cache<Config>>) {
    let system = system().await;
    let informers = SharedInformers::new(system.clone(), fake.client(), "test");
    let cache = informers.all::<Config>().await.unwrap();
    (system, cache)
}

fn contents(cache: &Cache<Config>) -> BTreeMap<String, String> {
    cache.list().iter().map(|item| (item.meta.name().to_owned(), item.value.value.clone())).collect()
}

/// The state of a subscriber that applies every notice.
#[derive(Default)]
struct Mirror {
    known: BTreeMap<String, String>,
    heard: Vec<String>,
}

impl Mirror {
    fn take(&mut self, changes: &mut Changes<Config>, cache: &Cache<Config>) {
        while let Some(notice) = changes.try_next() {
            match notice {
                Notice::Resync => {
                    self.heard.push("resync".to_owned());
                    self.known = contents(cache);
                }
                Notice::Changes(changes) => changes.into_iter().for_each(|change| self.change(change)),
            }
        }
    }

    fn change(&mut self, Change { key, old, new }: Change<Config>) {
        let sign = match (&old, &new) {
            (None, Some(_)) => '+',
            (Some(_), Some(_)) => '~',
            _ => '-',
        };
        self.heard.push(format!("{sign}{}", key.name));
        match new {
            Some(item) => self.known.insert(key.name.to_string(), item.value.value.clone()),
            None => self.known.remove(key.name.as_str()),
        };
    }
}

fn run(test: impl AsyncFn() + Copy) {
    Universe::sweep(0..8, || async move { test().await });
}

#[test]
fn the_cache_follows_the_server() {
    run(async || {
        let fake = Fake::default();
        fake.set("a", "1");
        fake.set("b", "1");
        let (_system, cache) = informer(&fake).await;
        assert!(!cache.is_synced());
        cache.synced(soon()).await.unwrap();
        assert_eq!(contents(&cache), fake.contents());
        assert_eq!(cache.revision(), fake.revision());
        let by_value = cache.by_label("v");
        fake.set("b", "2");
        fake.set("c", "2");
        let revision = fake.delete("a").unwrap();
        cache.at_least(revision, soon()).await.unwrap();
        assert_eq!(contents(&cache), fake.contents());
        assert_eq!(by_value.get("2").iter().map(|item| item.meta.name().to_owned()).collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(by_value.values(), ["2"]);
        assert_eq!(fake.requests(), ["stream"]);
        let ahead = cache.at_least(Revision(revision.get() + 1), clock::after(Duration::from_secs(1))).await;
        assert_eq!(ahead, Err(crate::NotCaughtUp { at: revision, wanted: Revision(revision.get() + 1) }));
    });
}

#[test]
fn a_broken_stream_is_resumed_from_the_last_revision() {
    run(async || {
        let fake = Fake::default();
        fake.set("a", "1");
        let (_system, cache) = informer(&fake).await;
        cache.synced(soon()).await.unwrap();
        let first = cache.revision();
        let mut changes = cache.subscribe(100);
        let mut mirror = Mirror::default();
        mirror.take(&mut changes, &cache);
        fake.cut();
        let revision = fake.set("b", "1");
        cache.at_least(revision, soon()).await.unwrap();
        mirror.take(&mut changes, &cache);
        assert_eq!(mirror.heard, ["resync", "+b"]);
        assert_eq!(fake.requests(), ["stream".to_owned(), format!("watch {first}")]);
    });
}

#[test]
fn an_expired_revision_replaces_the_state_and_reports_what_went_missing() {
    run(async || {
        let fake = Fake::default();
        for name in ["kept", "changed", "gone", "reborn"] {
            fake.set(name, "1");
        }
        let (_system, cache) = informer(&fake).await;
        cache.synced(soon()).await.unwrap();
        let mut changes = cache.subscribe(100);
        let mut mirror = Mirror::default();
        mirror.take(&mut changes, &cache);
        let kept = cache.named("d", "kept").unwrap();
        fake.behave(|b| b.down = Some(Status::service_unavailable("down")));
        fake.cut();
        fake.delete("gone");
        fake.delete("reborn");
        fake.set("reborn", "1");
        fake.set("changed", "2");
        fake.set("new", "1");
        fake.compact();
        fake.behave(|b| b.down = None);
        cache.at_least(fake.revision(), soon()).await.unwrap();
        assert_eq!(contents(&cache), fake.contents());
        mirror.take(&mut changes, &cache);
        mirror.heard.sort();
        assert_eq!(mirror.heard, ["+new", "-gone", "resync", "~changed", "~reborn"]);
        assert!(Arc::ptr_eq(&kept, &cache.named("d", "kept").unwrap()), "what did not change is not decoded again");
        assert_eq!(fake.asked("stream"), 2);
    });
}

#[test]
fn a_410_within_the_stream_does_the_same() {
    run(async || {
        let fake = Fake::default();
        fake.set("gone", "1");
        let (_system, cache) = informer(&fake).await;
        cache.synced(soon()).await.unwrap();
        // The stream stays open, but its revision is compacted.
        fake.delete("gone");
        fake.set("new", "1");
        fake.compact();
        cache.at_least(fake.revision(), soon()).await.unwrap();
        assert_eq!(contents(&cache), fake.contents());
        assert_eq!((fake.asked("stream"), fake.asked("watch")), (2, 0));
    });
}

#[test]
fn a_server_without_streaming_lists_is_listed_page_by_page() {
    for refusal in [
        Status::bad_request("sendInitialEvents is unknown"),
        Status::invalid(&oarlock_meta::GroupKind::new("meta.k8s.io", "ListOptions"), "", &[]),
    ] {
        let refusal = &refusal;
        Universe::sweep(0..4, || async move {
            let fake = Fake::default();
            fake.behave(|b| b.refuse_streaming = Some(refusal.clone()));
            for n in 0..10 {
                fake.set(&format!("c{n}"), "1");
            }
            let (_system, cache) = informer(&fake).await;
            cache.synced(soon()).await.unwrap();
            assert_eq!(contents(&cache), fake.contents());
            assert_eq!(fake.asked("list"), 4);
            let revision = fake.set("c0", "2");
            cache.at_least(revision, soon()).await.unwrap();
            fake.cut();
            fake.delete("c1");
            fake.compact();
            cache.at_least(fake.revision(), soon()).await.unwrap();
            assert_eq!(contents(&cache), fake.contents());
            assert_eq!(fake.asked("stream"), 1, "asked again although the server refused");
        });
    }
}

#[test]
fn pages_that_expire_are_replaced_by_one_list() {
    run(async || {
        let fake = Fake::default();
        fake.behave(|b| {
            b.refuse_streaming = Some(Status::bad_request("no"));
            b.expire_continue = true;
        });
        for n in 0..10 {
            fake.set(&format!("c{n}"), "1");
        }
        let (_system, cache) = informer(&fake).await;
        cache.synced(soon()).await.unwrap();
        assert_eq!((contents(&cache), fake.asked("list")), (fake.contents(), 3));
    });
}

#[test]
fn a_server_that_never_closes_the_initial_events_is_listed() {
    run(async || {
        let fake = Fake::default();
        fake.behave(|b| b.never_closes = true);
        fake.set("a", "1");
        let (_system, cache) = informer(&fake).await;
        cache.synced(soon()).await.unwrap();
        assert_eq!((contents(&cache), fake.asked("list")), (fake.contents(), 1));
    });
}

#[test]
fn what_is_sent_twice_changes_nothing() {
    run(async || {
        let fake = Fake::default();
        fake.behave(|b| b.twice = true);
        let (_system, cache) = informer(&fake).await;
        cache.synced(soon()).await.unwrap();
        let mut changes = cache.subscribe(100);
        let mut mirror = Mirror::default();
        mirror.take(&mut changes, &cache);
        let mut revision = fake.revision();
        for step in 0..20 {
            revision = match step % 3 {
                0 => fake.set("a", &step.to_string()),
                1 => fake.set("b", &step.to_string()),
                _ => fake.delete("a").unwrap(),
            };
        }
        cache.at_least(revision, soon()).await.unwrap();
        mirror.take(&mut changes, &cache);
        assert_eq!((contents(&cache), &mirror.known), (fake.contents(), &fake.contents()));
        assert_eq!(cache.revision(), revision);
    });
}

#[test]
fn nothing_is_lost_however_streams_break_and_revisions_expire() {
    Universe::sweep(0..24, || async {
        let fake = Fake::default();
        fake.behave(|b| b.break_after = Some(60));
        let (_system, cache) = informer(&fake).await;
        let mut changes = cache.subscribe(16);
        let mut mirror = Mirror::default();
        for step in 0..400 {
            let name = format!("c{}", rng::below(20));
            if rng::with(|rng| rng.chance(1, 4)) {
                fake.delete(&name);
            } else {
                fake.set(&name, &step.to_string());
            }
            if rng::with(|rng| rng.chance(1, 40)) {
                fake.cut();
            }
            if rng::with(|rng| rng.chance(1, 40)) {
                fake.compact();
            }
            if rng::with(|rng| rng.chance(1, 8)) {
                mirror.take(&mut changes, &cache);
            }
            if rng::with(|rng| rng.chance(1, 3)) {
                clock::sleep(Duration::from_millis(rng::below(300))).await;
            }
        }
        cache.at_least(fake.revision(), soon()).await.unwrap();
        mirror.take(&mut changes, &cache);
        assert_eq!(contents(&cache), fake.contents());
        assert_eq!(mirror.known, fake.contents());
    });
}

#[test]
fn an_outage_is_met_with_growing_pauses() {
    run(async || {
        let fake = Fake::default();
        let (_system, cache) = informer(&fake).await;
        cache.synced(soon()).await.unwrap();
        fake.behave(|b| b.down = Some(Status::service_unavailable("down")));
        fake.cut();
        clock::sleep(Duration::from_secs(3600)).await;
        let asked = fake.asked("watch");
        assert!((300..600).contains(&asked), "{asked} attempts in an hour");
        fake.behave(|b| b.down = None);
        let revision = fake.set("a", "1");
        cache.at_least(revision, soon()).await.unwrap();
    });
}

#[test]
fn a_410_after_an_outage_is_not_one_failure_more() {
    run(async || {
        let fake = Fake::default();
        let (_system, cache) = informer(&fake).await;
        cache.synced(soon()).await.unwrap();
        fake.behave(|b| b.down = Some(Status::service_unavailable("down")));
        fake.cut();
        clock::sleep(Duration::from_secs(3600)).await;
        let asked = fake.asked("watch");
        let revision = fake.set("a", "1");
        fake.compact();
        fake.behave(|b| b.down = None);
        until(|| fake.asked("watch") > asked).await;
        // A 410 shows that the server is up, so the reflector lists again at once.
        cache.at_least(revision, clock::after(Duration::from_secs(1))).await.unwrap();
    });
}

#[test]
fn a_watch_that_outlives_its_time_is_given_up() {
    run(async || {
        let fake = Fake::default();
        let (_system, cache) = informer(&fake).await;
        cache.synced(soon()).await.unwrap();
        fake.behave(|b| b.mute = true);
        fake.cut();
        until(|| fake.asked("watch") == 1).await;
        fake.behave(|b| b.mute = false);
        let revision = fake.set("a", "1");
        // The silent stream is still open; its `timeoutSeconds` is ten minutes at most.
        cache.at_least(revision, clock::after(Duration::from_secs(700))).await.unwrap();
    });
}

#[test]
fn the_same_selection_is_the_same_cache_and_stops_with_the_system() {
    run(async || {
        let fake = Fake::default();
        let system = system().await;
        let informers = SharedInformers::new(system.clone(), fake.client(), "test");
        let first = informers.all::<Config>().await.unwrap();
        assert!(Arc::ptr_eq(&first, &informers.clone().all::<Config>().await.unwrap()));
        let some = informers.select::<Config>(Selection::namespace("d")).await.unwrap();
        let meta = informers.of::<()>(Config::RESOURCE.find().unwrap(), Selection::default()).await.unwrap();
        assert!(!Arc::ptr_eq(&first, &some));
        informers.synced(soon()).await.unwrap();
        let revision = fake.set("a", "1");
        meta.at_least(revision, soon()).await.unwrap();
        assert_eq!(meta.get(&Key::new("d", "a")).unwrap().meta.uid.as_str(), "u1");
        assert_eq!(fake.asked("stream"), 3);
        assert!(matches!(informers.all::<Unknown>().await, Err(crate::Error::Resource(_))));
        let report = shutdown::shutdown(&system, shutdown::Graces::default()).await;
        assert_eq!(report.late().count(), 0);
    });
}

struct Unknown;

impl Project for Unknown {
    const RESOURCE: crate::ResourceName = crate::ResourceName::core("unknown");
    fn project(_: &oarlock_schema::Obj) -> Self {
        Self
    }
}

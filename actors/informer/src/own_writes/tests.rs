use std::time::Duration;

use super::*;
use crate::cache::Cache;
use crate::item::Item;
use crate::relay::Delta;
use crate::testing::{Config, object};

fn set(cache: &Cache<Config>, name: &str, revision: u64) {
    let item = Item::of(&object(name, &format!("u-{name}"), "v", revision).obj().unwrap(), Revision(revision));
    cache.apply([Delta::Set(Arc::new(item))]);
}

fn ready() -> (OwnWrites, Arc<Cache<Config>>, Key) {
    let cache = Arc::new(Cache::<Config>::default());
    cache.fill([], Revision(1));
    (OwnWrites::default(), cache, Key::new("d", "owner"))
}

fn soon() -> Instant {
    clock::after(Duration::from_secs(5))
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_until_the_cache_shows_its_last_write() {
    let (own, cache, key) = ready();
    own.wrote(&key, &cache, Revision(7));
    own.wrote(&key, &cache, Revision(5));
    assert!(own.settled(&Key::new("d", "another")));
    let (settled, ()) = futures::join!(own.wait(&key, soon()), async {
        set(&cache, "a", 5);
        tokio::task::yield_now().await;
        assert!(!own.settled(&key));
        clock::sleep(Duration::from_secs(1)).await;
        set(&cache, "b", 7);
    });
    assert!(settled && own.settled(&key));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_settled_when_the_incarnation_is_gone() {
    let (own, cache, key) = ready();
    set(&cache, "a", 2);
    let object = Key::new("d", "a");
    own.deleted(&key, &cache, object.clone(), "another".into());
    assert!(own.settled(&key), "that incarnation was not there any more");
    own.deleted(&key, &cache, object.clone(), "u-a".into());
    assert!(!own.settled(&key));
    cache.apply([Delta::Gone(object, Revision(3))]);
    assert!(own.settled(&key));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_never_shows_is_given_up() {
    let (own, cache, key) = ready();
    own.wrote(&key, &cache, Revision(7));
    let began = clock::now();
    assert!(!own.wait(&key, soon()).await);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert!(own.settled(&key));
}

#[test]
fn keys_that_nobody_asks_about_again_are_swept_out() {
    let (own, cache, _) = ready();
    for n in 0..5000 {
        own.wrote(&Key::new("d", format!("k{n}")), &cache, Revision(2 + n));
        set(&cache, "a", 2 + n);
    }
    assert!(own.pending.lock().len() <= SWEEP_FROM_KEYS, "{own:?}");
}

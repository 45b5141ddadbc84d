use super::*;
use crate::changes::Notice;
use crate::relay::Delta;
use crate::testing::{Config, object};

fn item(name: &str, uid: &str, value: &str, revision: u64) -> Arc<Item<Config>> {
    Arc::new(Item::of(&object(name, uid, value, revision).obj().unwrap(), Revision(revision)))
}

fn set(cache: &Cache<Config>, name: &str, value: &str, revision: u64) {
    cache.apply([Delta::Set(item(name, &format!("u-{name}"), value, revision))]);
}

fn changes(subscription: &mut Changes<Config>) -> Vec<String> {
    match subscription.try_next() {
        None => vec![],
        Some(Notice::Resync) => vec!["resync".to_owned()],
        Some(Notice::Changes(changes)) => changes.iter().map(|change| format!("{change:?}")).collect(),
    }
}

#[test]
fn many_changes_of_one_key_are_one_notice_with_both_ends() {
    let cache = Cache::<Config>::default();
    set(&cache, "a", "0", 1);
    let mut subscription = cache.subscribe(10);
    assert_eq!(changes(&mut subscription), ["resync"]);
    for revision in 2..100 {
        set(&cache, "a", &revision.to_string(), revision);
    }
    set(&cache, "b", "1", 100);
    assert_eq!(changes(&mut subscription), ["d/a Some(1) -> Some(99)", "d/b None -> Some(100)"]);
    assert!(changes(&mut subscription).is_empty());
}

#[test]
fn what_came_and_went_unheard_is_not_told() {
    let cache = Cache::<Config>::default();
    let mut subscription = cache.subscribe(10);
    changes(&mut subscription);
    set(&cache, "a", "0", 1);
    cache.apply([Delta::Gone(Key::new("d", "a"), Revision(2))]);
    assert!(changes(&mut subscription).is_empty());
}

#[test]
fn a_subscriber_that_falls_behind_is_told_to_look_at_everything() {
    let cache = Cache::<Config>::default();
    let mut slow = cache.subscribe(10);
    let mut fast = cache.subscribe(1000);
    assert_eq!((changes(&mut slow), changes(&mut fast)), (vec!["resync".to_owned()], vec!["resync".to_owned()]));
    for n in 0..11 {
        set(&cache, &format!("c{n}"), "1", n + 1);
    }
    assert_eq!(changes(&mut slow), ["resync"]);
    assert_eq!(changes(&mut fast).len(), 11);
    set(&cache, "c0", "2", 50);
    assert_eq!(changes(&mut slow), ["d/c0 Some(1) -> Some(50)"]);
}

#[test]
fn a_change_that_nobody_reads_is_not_told_and_moves_the_revision() {
    let cache = Cache::<Config>::default();
    set(&cache, "a", "same", 1);
    let mut subscription = cache.subscribe(10);
    changes(&mut subscription);
    set(&cache, "a", "same", 2);
    assert!(changes(&mut subscription).is_empty());
    assert_eq!((cache.revision(), cache.named("d", "a").unwrap().meta.revision), (Revision(2), Revision(2)));
}

#[test]
fn old_states_and_old_deletions_are_ignored() {
    let cache = Cache::<Config>::default();
    set(&cache, "a", "new", 5);
    set(&cache, "a", "old", 4);
    cache.apply([Delta::Gone(Key::new("d", "a"), Revision(4))]);
    assert_eq!(cache.named("d", "a").unwrap().value.value, "new");
    cache.apply([Delta::Mark(Revision(3))]);
    assert_eq!(cache.revision(), Revision(5));
}

#[test]
fn a_dropped_subscription_costs_nothing() {
    let cache = Cache::<Config>::default();
    drop(cache.subscribe(10));
    set(&cache, "a", "1", 1);
    assert!(cache.state.read().subscribers.is_empty());
}

#[test]
fn indexes_follow_values_that_change() {
    let cache = Arc::new(Cache::<Config>::default());
    set(&cache, "a", "x", 1);
    let index = cache.index("value", |item, value| {
        value(&item.value.value);
        value("all");
        value("all");
    });
    let again = cache.index("value", |_, _| unreachable!("the index is there"));
    set(&cache, "b", "x", 2);
    let names = |value: &str| again.get(value).iter().map(|item| item.meta.name().to_owned()).collect::<Vec<_>>();
    assert_eq!(
        (names("x"), names("all")),
        (vec!["a".to_owned(), "b".to_owned()], vec!["a".to_owned(), "b".to_owned()])
    );
    set(&cache, "a", "y", 3);
    cache.apply([Delta::Gone(Key::new("d", "b"), Revision(4))]);
    assert_eq!((names("x"), names("y"), names("all")), (vec![], vec!["a".to_owned()], vec!["a".to_owned()]));
    assert_eq!(index.values(), ["all", "y"]);
}

#[test]
fn namespaces_are_ranges() {
    let cache = Cache::<Config>::default();
    let json = |namespace: &str, name: &str| {
        let json = format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}}}}"#);
        Item::<Config>::of(
            &oarlock_client::decode(crate::testing::configmaps().ty, json.as_bytes()).unwrap(),
            Revision(1),
        )
    };
    cache.fill([json("b", "1"), json("a", "2"), json("b", "0"), json("bb", "3")], Revision(1));
    let keys = |namespace| cache.in_namespace(namespace).iter().map(|item| item.key().to_string()).collect::<Vec<_>>();
    assert_eq!(keys("b"), ["b/0", "b/1"]);
    assert_eq!(keys("c"), [""; 0]);
    assert!(cache.is_synced());
}

#[test]
fn metadata_is_read_whole() {
    let json = br#"{"metadata":{"name":"p","namespace":"d","uid":"u","generation":3,"creationTimestamp":"2026-01-02T03:04:05Z",
        "deletionTimestamp":"2026-01-02T03:04:35Z","labels":{"b":"2","a":"1"},"annotations":{"x":"y"},"finalizers":["f"],
        "ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"un"},
        {"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"ur","controller":true,"blockOwnerDeletion":true}]}}"#;
    let obj = oarlock_client::decode(crate::testing::configmaps().ty, json).unwrap();
    let meta = crate::ObjMeta::read(&obj, Revision(9), true);
    assert_eq!((meta.label("a"), meta.label("b"), meta.label("c")), (Some("1"), Some("2"), None));
    assert_eq!((meta.annotation("x"), meta.generation, meta.deleting()), (Some("y"), 3, true));
    assert_eq!(meta.created.unwrap().to_string(), "2026-01-02T03:04:05Z");
    let owner = meta.controller().unwrap();
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.block_deletion), ("ReplicaSet", "ur", true));
    assert_eq!((meta.owners.len(), meta.finalizers.len()), (2, 1));
    assert!(crate::ObjMeta::read(&obj, Revision(9), false).annotations.is_empty());
}

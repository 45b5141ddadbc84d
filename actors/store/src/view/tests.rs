use bytes::Bytes;

use super::*;
use crate::entry::{EntryParts, Fields};
use crate::event::{Event, EventKind};

const PODS: &str = "/registry/pods/";

fn key(namespace: &str, name: &str) -> Key {
    Key::namespaced(PODS, namespace, name)
}

fn entry(key: &Key, revision: u64, node: &str, bytes: usize) -> Arc<Entry> {
    let names: Arc<[compact_str::CompactString]> = ["spec.nodeName".into()].into();
    let parts = EntryParts { fields: Fields::new(names, vec![node.into()]), ..EntryParts::default() };
    Arc::new(Entry::new(key.clone(), &Bytes::from(vec![b'x'; bytes]), Revision(revision), parts))
}

fn put(key: &Key, revision: u64, prev: u64) -> Change {
    let prev = (prev > 0).then_some(Revision(prev));
    Change { key: key.clone(), revision: Revision(revision), prev, entry: Some(entry(key, revision, "", 10)) }
}

fn delete(key: &Key, revision: u64, prev: u64) -> Change {
    Change { key: key.clone(), revision: Revision(revision), prev: Some(Revision(prev)), entry: None }
}

fn names(entries: impl Iterator<Item = impl AsRef<Entry>>) -> Vec<String> {
    entries.map(|entry| entry.as_ref().key.rest().to_owned()).collect()
}

fn seen(batch: &Batch) -> Vec<(EventKind, u64)> {
    batch.events.iter().map(|event| (event.kind, event.revision.get())).collect()
}

#[test]
fn a_list_has_the_revision_of_the_store_not_of_its_items() {
    let view = View::new(DEFAULT_WINDOW_BYTES);
    view.apply(&[put(&key("a", "x"), 5, 0), put(&Key::cluster("/registry/minions/", "n"), 9, 0)]).unwrap();
    assert_eq!(view.list(PODS).revision(), Revision(9));
    assert_eq!(view.list("/registry/nothing/").revision(), Revision(9));
    assert!(view.list("/registry/nothing/").is_empty());
}

#[test]
fn ranges_are_by_namespace_and_start() {
    let view = View::new(DEFAULT_WINDOW_BYTES);
    let keys = [key("a", "1"), key("a", "2"), key("a-b", "1"), key("b", "1"), Key::new("/registry/podsets/", "a/1")];
    let changes: Vec<Change> = keys.iter().zip(1..).map(|(key, revision)| put(key, revision, 0)).collect();
    view.apply(&changes).unwrap();
    let list = view.list(PODS);
    assert_eq!(names(list.iter()), ["a-b/1", "a/1", "a/2", "b/1"], "in the order of keys");
    assert_eq!(names(list.range(Some("a"), "")), ["a/1", "a/2"]);
    assert_eq!(names(list.range(Some("a"), "a/2")), ["a/2"]);
    assert_eq!(names(list.range(Some("a"), "a/2\0")), Vec::<String>::new());
    assert_eq!(names(list.range(None, "a/2")), ["a/2", "b/1"]);
    assert_eq!(names(list.range(Some("a"), "b/1")), Vec::<String>::new(), "a start behind the namespace");
    assert_eq!((list.count(None, ""), list.count(Some("b"), "")), (4, 1));
}

#[test]
fn a_change_that_does_not_follow_is_a_hole() {
    let view = View::new(DEFAULT_WINDOW_BYTES);
    view.apply(&[put(&key("a", "x"), 5, 0)]).unwrap();
    assert!(view.apply(&[put(&key("a", "x"), 7, 6)]).is_err(), "a missed version");
    assert!(view.apply(&[put(&key("a", "x"), 7, 0)]).is_err(), "a missed delete");
    assert!(view.apply(&[delete(&key("a", "y"), 7, 6)]).is_err(), "a missed create");
    assert!(view.apply(&[put(&key("a", "y"), 5, 0)]).is_err(), "a revision twice");
    assert_eq!(view.applied(), Revision(5));
}

#[test]
fn old_states_are_read_exactly_within_the_window() {
    let view = View::new(DEFAULT_WINDOW_BYTES);
    let (x, y) = (key("a", "x"), key("a", "y"));
    let changes =
        [put(&x, 1, 0), put(&y, 2, 0), put(&x, 3, 1), delete(&y, 4, 2), put(&y, 6, 0), delete(&x, 7, 3), put(&x, 9, 0)];
    view.apply(&changes).unwrap();
    let wanted: [(u64, &[(&str, u64)]); 10] = [
        (0, &[]),
        (1, &[("a/x", 1)]),
        (2, &[("a/x", 1), ("a/y", 2)]),
        (3, &[("a/x", 3), ("a/y", 2)]),
        (4, &[("a/x", 3)]),
        (5, &[("a/x", 3)]),
        (6, &[("a/x", 3), ("a/y", 6)]),
        (7, &[("a/y", 6)]),
        (8, &[("a/y", 6)]),
        (9, &[("a/x", 9), ("a/y", 6)]),
    ];
    // Twice, and backwards: the second time some come from cached snapshots.
    for (revision, state) in wanted.iter().chain(wanted.iter().rev()) {
        let list = view.list_at(PODS, Revision(*revision)).unwrap();
        let got: Vec<(&str, u64)> = list.iter().map(|entry| (entry.key.rest(), entry.revision.get())).collect();
        assert_eq!((list.revision().get(), got.as_slice()), (*revision, *state));
    }
    assert!(matches!(view.list_at(PODS, Revision(10)), Err(ReadError::Future { .. })));
    view.trim(Revision(4));
    assert!(matches!(view.list_at(PODS, Revision(3)), Err(ReadError::Expired { floor: Revision(4) })));
    assert_eq!(view.list_at(PODS, Revision(4)).unwrap().len(), 1);
}

#[test]
fn a_watch_says_everything_after_its_start_and_what_it_did() {
    let view = View::new(DEFAULT_WINDOW_BYTES);
    let x = key("a", "x");
    view.apply(&[put(&x, 1, 0), put(&x, 2, 1)]).unwrap();
    let mut cursor = view.watch(PODS, Revision(1), Interest::All, None).unwrap();
    view.apply(&[delete(&x, 3, 2), put(&x, 5, 0)]).unwrap();
    view.advance(Revision(8));
    let first = cursor.take(2).unwrap();
    assert_eq!(seen(&first), [(EventKind::Modified, 2), (EventKind::Deleted, 3)]);
    assert_eq!(first.progress, Revision(3), "not beyond what was said");
    let second = cursor.take(2).unwrap();
    assert_eq!((seen(&second), second.progress), (vec![(EventKind::Added, 5)], Revision(8)));
    assert_eq!(first.events[1].entry.revision, Revision(3), "the last state under the revision of the deletion");
    assert_eq!(first.events[1].prev.as_ref().unwrap().revision, Revision(2));
}

#[test]
fn a_watch_from_the_future_is_silent_until_then() {
    let view = View::new(DEFAULT_WINDOW_BYTES);
    let x = key("a", "x");
    view.apply(&[put(&x, 1, 0)]).unwrap();
    let mut cursor = view.watch(PODS, Revision(3), Interest::All, None).unwrap();
    view.apply(&[put(&x, 2, 1), put(&x, 3, 2), put(&x, 4, 3)]).unwrap();
    assert_eq!(seen(&cursor.take(9).unwrap()), [(EventKind::Modified, 4)]);
}

#[test]
fn watchers_below_the_window_are_gone_and_those_inside_are_not() {
    let view = View::new(DEFAULT_WINDOW_BYTES);
    let (x, other) = (key("a", "x"), Key::cluster("/registry/minions/", "n"));
    view.apply(&[put(&x, 1, 0), put(&x, 2, 1), put(&x, 3, 2), put(&other, 4, 0)]).unwrap();
    let mut behind = view.watch(PODS, Revision(1), Interest::All, None).unwrap();
    let mut level = view.watch(PODS, Revision(2), Interest::All, None).unwrap();
    view.trim(Revision(2));
    assert_eq!(behind.take(9).unwrap_err(), Gone { floor: Revision(2) });
    assert_eq!(behind.take(9).unwrap_err(), Gone { floor: Revision(2) }, "and stays gone");
    assert_eq!(seen(&level.take(9).unwrap()), [(EventKind::Modified, 3)]);
    assert!(view.watch(PODS, Revision(1), Interest::All, None).is_err());
    assert!(view.watch("/registry/minions/", Revision(1), Interest::All, None).is_ok(), "windows are per resource");
}

#[test]
fn a_reset_ends_every_watch_also_those_that_had_seen_everything() {
    let view = View::new(DEFAULT_WINDOW_BYTES);
    let x = key("a", "x");
    view.apply(&[put(&x, 1, 0)]).unwrap();
    let object = Interest::Object { namespace: "a".into(), name: "x".into() };
    let mut cursors: Vec<WatchCursor> =
        [Interest::All, object].map(|interest| view.watch(PODS, Revision(0), interest, None).unwrap()).into();
    cursors.iter_mut().for_each(|cursor| assert_eq!(cursor.take(9).unwrap().events.len(), 1));
    view.reset([entry(&x, 7, "", 1)], Revision(9));
    for cursor in &mut cursors {
        assert_eq!(cursor.take(9).unwrap_err(), Gone { floor: Revision(9) });
    }
    assert_eq!(view.get(&x).unwrap().revision, Revision(7));
    assert!(view.list_at(PODS, Revision(8)).is_err());
    let mut fresh = view.watch(PODS, Revision(9), Interest::All, None).unwrap();
    view.apply(&[put(&x, 10, 7)]).unwrap();
    assert_eq!(seen(&fresh.take(9).unwrap()), [(EventKind::Modified, 10)]);
}

#[test]
fn a_skip_ends_the_watches_that_missed_something_and_no_other() {
    let view = View::new(DEFAULT_WINDOW_BYTES);
    let x = key("a", "x");
    view.apply(&[put(&x, 1, 0)]).unwrap();
    let object = Interest::Object { namespace: "a".into(), name: "x".into() };
    let watch = |after, interest: &Interest| view.watch(PODS, Revision(after), interest.clone(), None).unwrap();
    for interest in [Interest::All, object] {
        let mut behind = watch(1, &interest);
        // Another server has delivered more to these watchers than this View has applied.
        let [mut level, mut ahead] = [9, 10].map(|after| watch(after, &interest));
        view.skip_to([entry(&x, 7, "", 1)], Revision(9));
        view.apply(&[put(&x, 10, 7), put(&x, 11, 10)]).unwrap();
        assert_eq!(behind.take(9).unwrap_err(), Gone { floor: Revision(9) });
        assert_eq!(seen(&level.take(9).unwrap()), [(EventKind::Modified, 10), (EventKind::Modified, 11)]);
        let told = ahead.take(9).unwrap();
        assert_eq!((seen(&told), told.progress), (vec![(EventKind::Modified, 11)], Revision(11)));
        view.reset([entry(&x, 1, "", 1)], Revision(1));
        for cursor in [&mut level, &mut ahead] {
            assert_eq!(
                cursor.take(9).unwrap_err(),
                Gone { floor: Revision(1) },
                "of another history they know nothing"
            );
        }
    }
}

#[test]
fn a_field_watcher_sees_objects_come_and_go() {
    let view = View::new(DEFAULT_WINDOW_BYTES);
    let x = key("a", "x");
    let on = |node: &str| Interest::Field { field: "spec.nodeName".into(), value: node.into() };
    let mut n1 = view.watch(PODS, Revision(0), on("n1"), None).unwrap();
    let steps = [(1, 0, ""), (2, 1, "n1"), (3, 2, "n1"), (4, 3, "n2")];
    for (revision, prev, node) in steps {
        let mut change = put(&x, revision, prev);
        change.entry = Some(entry(&x, revision, node, 1));
        view.apply(&[change]).unwrap();
    }
    let mut late = view.watch(PODS, Revision(2), on("n1"), None).unwrap();
    view.apply(&[delete(&x, 5, 4)]).unwrap();
    let revisions = |batch: Batch| batch.events.iter().map(|event| event.revision.get()).collect::<Vec<_>>();
    assert_eq!(revisions(n1.take(9).unwrap()), [2, 3, 4]);
    assert_eq!(revisions(late.take(9).unwrap()), [3, 4], "what came before it joined");
    let mut n2 = view.watch(PODS, Revision(0), on("n2"), None).unwrap();
    assert_eq!(revisions(n2.take(9).unwrap()), [4, 5], "a group made later");
}

#[test]
fn busy_windows_give_way_before_quiet_ones() {
    let view = View::new(64 << 10);
    let (busy, quiet) = (Key::cluster("/registry/leases/", "l"), key("a", "x"));
    view.apply(&[put(&quiet, 1, 0)]).unwrap();
    for revision in 2..2000 {
        view.apply(&[put(&busy, revision, if revision == 2 { 0 } else { revision - 1 })]).unwrap();
    }
    assert!(view.window_bytes() <= 64 << 10, "{} bytes", view.window_bytes());
    assert!(view.watch(PODS, Revision(0), Interest::All, None).is_ok());
    assert!(view.watch("/registry/leases/", Revision(1000), Interest::All, None).is_err());
    assert!(view.watch("/registry/leases/", Revision(1990), Interest::All, None).is_ok());
}

#[test]
fn an_event_is_encoded_once_and_counted() {
    let view = View::new(DEFAULT_WINDOW_BYTES);
    view.apply(&[put(&key("a", "x"), 1, 0)]).unwrap();
    let events: Vec<Arc<Event>> = (0..2)
        .map(|_| Arc::clone(&view.watch(PODS, Revision(0), Interest::All, None).unwrap().take(1).unwrap().events[0]))
        .collect();
    let before = view.window_bytes();
    let made = std::cell::Cell::new(0);
    for event in &events {
        let bytes = event.encoded(3, |_| {
            made.set(made.get() + 1);
            Bytes::from(vec![0; 1000])
        });
        assert_eq!(bytes.len(), 1000);
    }
    assert_eq!((made.get(), view.window_bytes() - before), (1, 1000));
    view.trim(Revision(1));
    drop(events);
    assert_eq!(view.window_bytes(), 0, "everything is given back");
}

#[test]
fn fair_caps_cut_the_largest_only() {
    assert_eq!(fair_cap(&[100, 10, 10], 60), 40);
    assert_eq!(fair_cap(&[100, 90, 10], 60), 25);
    assert_eq!(fair_cap(&[100, 100, 100], 60), 20);
    assert_eq!(fair_cap(&[100], 60), 60);
}

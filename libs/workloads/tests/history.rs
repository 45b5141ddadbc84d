//! The order of revisions, the revision of a template, and the revisions beyond the limit.

use oarlock_meta::Time;
use oarlock_schema::Value;
use oarlock_workloads::{Fingerprint, History, Revision, Update};

fn data(text: &str) -> Fingerprint {
    Fingerprint::of(&Value::from(text))
}

fn revision(name: &'static str, number: i64, created: i64, template: &str) -> Revision<'static> {
    Revision { name, number, created: Some(Time::from_unix(created)), data: data(template) }
}

fn names(revisions: &[Revision<'_>]) -> String {
    revisions.iter().map(|revision| revision.name).collect::<Vec<_>>().join(" ")
}

#[test]
fn revisions_are_in_the_order_of_numbers_then_of_ages_then_of_names() {
    let history = History::new([
        revision("e", 3, 1, ""),
        revision("d", 2, 9, ""),
        revision("c", 2, 5, ""),
        revision("b", 2, 5, ""),
        revision("a", 1, 7, ""),
    ]);
    assert_eq!(names(history.revisions()), "a b c d e");
    assert_eq!(history.named("d").map(|found| found.created), Some(Some(Time::from_unix(9))));
    assert_eq!(history.named("f"), None);
}

#[test]
fn a_template_has_the_newest_revision_with_its_bytes() {
    let (first, second, third) = (revision("a", 1, 1, "x"), revision("b", 2, 2, "y"), revision("c", 3, 3, "z"));
    let history = History::new([third, first, second]);
    assert_eq!(history.update(data("z")), Update::Newest(third));
    assert_eq!(history.update(data("x")), Update::Raise(first, 4));
    assert_eq!(history.update(data("new")), Update::New { number: 4, newest: Some(third) });
    let again = revision("d", 7, 4, "x");
    let history = History::new([first, second, third, again]);
    assert_eq!(history.update(data("x")), Update::Newest(again));
    let history = History::new([first, again, revision("e", 8, 5, "z")]);
    assert_eq!(history.update(data("x")), Update::Raise(again, 9));
    assert_eq!(History::new([]).update(data("x")), Update::New { number: 1, newest: None });
}

#[test]
fn the_oldest_revisions_beyond_the_limit_are_too_many_unless_they_live() {
    let history = History::new([
        revision("a", 1, 1, "a"),
        revision("b", 2, 2, "b"),
        revision("c", 3, 3, "c"),
        revision("d", 4, 4, "d"),
    ]);
    for (limit, live, expected) in [
        (10, "", ""),
        (4, "", ""),
        (2, "", "a b"),
        (0, "", "a b c d"),
        (1, "d", "a b"),
        (1, "ad", "b"),
        (0, "abcd", ""),
    ] {
        let surplus = history.surplus(limit, |name| live.contains(name));
        assert_eq!(names(&surplus), expected, "{limit} beside {live:?}");
    }
}

#[test]
fn of_revisions_with_one_template_the_newest_is_kept() {
    let history = History::new([
        revision("a", 1, 1, "x"),
        revision("b", 2, 2, "y"),
        revision("c", 3, 3, "x"),
        revision("d", 4, 4, "z"),
    ]);
    assert_eq!(history.update(data("x")), Update::Raise(revision("c", 3, 3, "x"), 5));
    assert_eq!(names(&history.duplicates(data("x"), "c")), "a");
    assert_eq!(names(&history.duplicates(data("y"), "b")), "");
}

#[test]
fn live_revisions_of_a_daemon_set_count_but_stay() {
    let history = History::new([
        revision("a", 1, 1, "a"),
        revision("b", 2, 2, "b"),
        revision("c", 3, 3, "c"),
        revision("d", 4, 4, "d"),
    ]);
    for (limit, current, live, expected) in [
        (10, "d", "", ""),
        (3, "d", "", ""),
        (1, "d", "", "a b"),
        (0, "d", "", "a b c"),
        (2, "d", "a", "b"),
        (1, "d", "ab", "c"),
        (0, "d", "abc", ""),
        (1, "b", "", "a c"),
    ] {
        let surplus = history.surplus_beside(current, limit, |name| live.contains(name));
        assert_eq!(names(&surplus), expected, "{limit} beside {current} and {live:?}");
    }
}

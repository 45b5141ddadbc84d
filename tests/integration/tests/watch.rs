//! Lists and watches over HTTP, as a client that is no client-go sees them: at one server, and at two over one etcd behind a balancer that sends
//! each request to the other one.

mod expired;
mod pages;
mod streams;

use oarlock_testkit::http::{Answer, Http, Stream, Who};
use oarlock_testkit::{Cluster, Etcd};
use serde_json::{Value, json};

use crate::balancer::Balancer;

/// A test of each case, at one server and at two.
macro_rules! cases {
    ($($flags:ident: $($file:ident::$name:ident)*;)*) => {
        mod alone {
            $($(#[test]
            fn $name() {
                super::alone(super::$flags, super::$file::$name);
            })*)*
        }
        mod balanced {
            $($(#[test]
            fn $name() {
                super::balanced(super::$flags, super::$file::$name);
            })*)*
        }
    };
}

cases! {
    API_ONLY:
        pages::pages_are_one_list_of_one_moment
        pages::a_deleted_collection_is_listed_in_the_answer
        streams::a_watch_tells_every_change_once_and_in_order
        streams::objects_come_and_go_as_a_selector_sees_them
        streams::a_watch_without_a_version_starts_with_what_is_there
        streams::initial_events_end_with_the_bookmark
        streams::who_takes_up_a_unit_is_told_at_once_how_far_it_has_come
        streams::a_watch_ends_when_it_was_told_to
        streams::a_future_revision_is_awaited_in_silence_and_a_list_of_it_is_refused
        streams::a_table_is_watched_with_its_columns_once
        streams::metadata_alone_is_listed_and_watched;
    SMALL_WINDOW:
        expired::a_page_of_a_list_that_is_gone_offers_to_go_on_with_another
        expired::a_list_of_an_old_revision_is_refused
        expired::a_watch_from_an_old_revision_says_so_as_its_only_event;
    SHORT_HISTORY:
        expired::a_page_of_objects_that_nobody_writes_expires_as_well;
}

const API_ONLY: &[&str] = &["--disable", "scheduler,controller-manager,kubelet"];
const SMALL_WINDOW: &[&str] = &["--disable", "scheduler,controller-manager,kubelet", "--watch-window-bytes", "1048576"];
const SHORT_HISTORY: &[&str] =
    &["--disable", "scheduler,controller-manager,kubelet", "--etcd-compaction-interval", "1s"];
/// Behind the balancer.
const SERVERS: usize = 2;

fn alone(flags: &[&str], case: fn(&Http)) {
    let cluster = Cluster::up(&[&["--ephemeral"], flags].concat());
    case(&cluster.http(Who::Admin));
}

fn balanced(flags: &[&str], case: fn(&Http)) {
    // The skip is listed in docs/operations/tests.md.
    let Ok(etcd) =
        Etcd::start(1).map_err(|why| oarlock_testkit::skipped!("{why}: nothing was tried through a balancer"))
    else {
        return;
    };
    let endpoints = etcd.endpoints().join(",");
    let flags = [&["--etcd-servers", endpoints.as_str()], flags].concat();
    let one = Cluster::up(&flags);
    let two = one.replica(&flags);
    let balancer = Balancer::before(&[&one, &two]);
    case(&one.http(Who::Admin).at(balancer.address()));
    let shares = balancer.shares();
    assert!(shares.iter().all(|share| *share > 0), "it was no balancer: {shares:?}");
}

/// Makes every server as fresh as the last write. What is asked of whatever a server has, without a revision, needs no more than that.
fn settle(http: &Http) {
    for _ in 0..SERVERS {
        assert_eq!(http.get(MAPS).code, 200);
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Flags of a server that keeps as little history as possible.
pub(crate) const TINY_WINDOW: &[&str] =
    &["--ephemeral", "--disable", "scheduler,controller-manager,kubelet", "--watch-window-bytes", "1048576"];

/// Writes one ConfigMap, `ballast`, until nothing from before is left in a [`TINY_WINDOW`].
#[track_caller]
pub(crate) fn pass_the_window(http: &Http) {
    let made = http.json("POST", MAPS, &json!({"metadata": {"name": "ballast"}}));
    assert!(matches!(made.code, 201 | 409), "{made}");
    let old = format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion={}", version(&http.get(MAPS).json()));
    let written = (0..64).find(|n| {
        merge(http, "ballast", &json!({"data": {"a": n.to_string(), "b": "x".repeat(100 << 10)}}));
        // Each server has its own watch window.
        (0..SERVERS).all(|_| http.get(&old).code == 410)
    });
    assert!(written.is_some(), "6 MiB were written and 1 MiB still holds them");
}

#[track_caller]
fn create(http: &Http, name: &str, labels: &Value) -> Value {
    let answer = http.json("POST", MAPS, &json!({"metadata": {"name": name, "labels": labels}}));
    assert_eq!(answer.code, 201, "{answer}");
    answer.json()
}

#[track_caller]
fn merge(http: &Http, name: &str, patch: &Value) -> Value {
    let headers = [("Content-Type", "application/merge-patch+json")];
    let answer = http.send("PATCH", &format!("{MAPS}/{name}"), &headers, patch.to_string().as_bytes());
    assert_eq!(answer.code, 200, "{answer}");
    answer.json()
}

#[track_caller]
fn delete(http: &Http, name: &str) -> Answer {
    let answer = http.send("DELETE", &format!("{MAPS}/{name}"), &[], b"");
    assert_eq!(answer.code, 200, "{answer}");
    answer
}

#[track_caller]
fn watch(http: &Http, query: &str) -> Stream {
    let stream = http.open("GET", &format!("{MAPS}?watch=1&{query}"), &[], b"").unwrap();
    assert_eq!(stream.code, 200);
    stream
}

/// The next event's type and its object's name.
#[track_caller]
fn next(stream: &mut Stream) -> (String, String) {
    let event = stream.event().expect("an event");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
}

fn pair(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

//! The events of a watch and their order.

use oarlock_testkit::http::Http;
use serde_json::json;

use super::{MAPS, create, delete, merge, next, pair, settle, version, watch};

pub(super) fn a_watch_tells_every_change_once_and_in_order(http: &Http) {
    let first = create(http, "first", &json!({}));
    let mut stream = watch(http, &format!("resourceVersion={}", version(&first)));
    let second = create(http, "second", &json!({}));
    let changed = merge(http, "first", &json!({"data": {"a": "1"}}));
    // An update without a change makes no event and no revision.
    assert_eq!(merge(http, "first", &json!({"data": {"a": "1"}})), changed);
    delete(http, "second");
    create(http, "third", &json!({}));
    let added = stream.event().unwrap();
    assert_eq!((&added["type"], &added["object"]), (&json!("ADDED"), &second));
    let modified = stream.event().unwrap();
    assert_eq!((&modified["type"], &modified["object"]), (&json!("MODIFIED"), &changed));
    let deleted = stream.event().unwrap();
    assert_eq!((&deleted["type"], &deleted["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("second")));
    assert!(version(&deleted["object"]) > version(&changed), "the revision of the deletion");
    assert_eq!(next(&mut stream), pair("ADDED", "third"));
}

pub(super) fn objects_come_and_go_as_a_selector_sees_them(http: &Http) {
    let start = create(http, "other", &json!({}));
    let mut stream = watch(http, &format!("labelSelector=tier%3Dgold&resourceVersion={}", version(&start)));
    create(http, "one", &json!({"tier": "gold"}));
    merge(http, "one", &json!({"data": {"a": "1"}}));
    let gone = merge(http, "one", &json!({"metadata": {"labels": {"tier": "tin"}}}));
    merge(http, "one", &json!({"data": {"a": "2"}}));
    merge(http, "one", &json!({"metadata": {"labels": {"tier": "gold"}}}));
    delete(http, "one");
    assert_eq!(next(&mut stream), pair("ADDED", "one"));
    assert_eq!(next(&mut stream), pair("MODIFIED", "one"));
    let left = stream.event().unwrap();
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["metadata"]["labels"]["tier"], "gold", "the last state that matched");
    assert_eq!(version(&left["object"]), version(&gone), "at the revision at which it left");
    assert_eq!(next(&mut stream), pair("ADDED", "one"));
    assert_eq!(next(&mut stream), pair("DELETED", "one"));
    let mut single = watch(http, "fieldSelector=metadata.name%3Dsingle");
    create(http, "many", &json!({}));
    create(http, "single", &json!({}));
    assert_eq!(next(&mut single), pair("ADDED", "single"));
}

pub(super) fn a_watch_without_a_version_starts_with_what_is_there(http: &Http) {
    for name in ["a", "b"] {
        create(http, name, &json!({}));
    }
    settle(http);
    for query in ["", "resourceVersion=0"] {
        let mut stream = watch(http, query);
        let mut seen = [next(&mut stream), next(&mut stream)];
        seen.sort();
        assert_eq!(seen, [pair("ADDED", "a"), pair("ADDED", "b")], "{query}");
    }
}

pub(super) fn initial_events_end_with_the_bookmark(http: &Http) {
    create(http, "a", &json!({}));
    let last = create(http, "b", &json!({}));
    let wanted = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut stream = watch(http, wanted);
    let mut seen = [next(&mut stream), next(&mut stream)];
    seen.sort();
    assert_eq!(seen, [pair("ADDED", "a"), pair("ADDED", "b")]);
    let bookmark = stream.event().unwrap();
    assert_eq!((&bookmark["type"], &bookmark["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(version(&bookmark["object"]) >= version(&last));
    create(http, "c", &json!({}));
    assert_eq!(next(&mut stream), pair("ADDED", "c"));
    // For a resource without objects the watch delivers only the bookmark.
    let empty = http.open("GET", &format!("/api/v1/secrets?watch=1&{wanted}"), &[], b"").unwrap().event().unwrap();
    assert_eq!(empty["type"], "BOOKMARK");
}

pub(super) fn who_takes_up_a_unit_is_told_at_once_how_far_it_has_come(http: &Http) {
    let first = create(http, "a", &json!({}));
    let from = format!("allowWatchBookmarks=true&resourceVersion={}", version(&first));
    let mut before = watch(http, &from);
    let unit = json!({"apiVersion": "oarlock.dev/v1", "kind": "Assignment", "metadata": {"name": "test"}, "spec": {"holderIdentity": "me"}});
    let given = http.json("POST", "/apis/oarlock.dev/v1/assignments", &unit).json();
    // A watch that is open already, and a watch that begins before that revision.
    for stream in [&mut before, &mut watch(http, &from)] {
        let bookmark = stream.event().unwrap();
        assert_eq!(bookmark["type"], "BOOKMARK");
        assert!(version(&bookmark["object"]) >= version(&given), "{bookmark}");
    }
}

pub(super) fn a_watch_ends_when_it_was_told_to(http: &Http) {
    create(http, "a", &json!({}));
    settle(http);
    let mut stream = watch(http, "timeoutSeconds=1&allowWatchBookmarks=true");
    assert_eq!(next(&mut stream), pair("ADDED", "a"));
    while let Some(event) = stream.event() {
        assert_eq!(event["type"], "BOOKMARK");
    }
}

pub(super) fn a_future_revision_is_awaited_in_silence_and_a_list_of_it_is_refused(http: &Http) {
    let now = version(&create(http, "a", &json!({})));
    let stream = watch(http, &format!("resourceVersion={}&timeoutSeconds=1", now + 1_000_000));
    assert_eq!(stream.finish().unwrap().text(), "");
    let refused = http.get(&format!("{MAPS}?resourceVersion={}", now + 1_000_000));
    assert_eq!(refused.code, 504, "{refused}");
    let status = refused.json();
    assert_eq!(
        (&status["reason"], &status["details"]["retryAfterSeconds"]),
        (&json!("Timeout"), &json!(1)),
        "{refused}"
    );
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge", "{refused}");
}

pub(super) fn a_table_is_watched_with_its_columns_once(http: &Http) {
    create(http, "a", &json!({}));
    settle(http);
    let accept = [("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let mut stream = http.open("GET", &format!("{MAPS}?watch=1"), &accept, b"").unwrap();
    let first = stream.event().unwrap();
    assert_eq!((&first["type"], &first["object"]["kind"]), (&json!("ADDED"), &json!("Table")));
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    create(http, "b", &json!({}));
    let second = stream.event().unwrap();
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
    assert!(second["object"]["columnDefinitions"].as_array().is_none_or(Vec::is_empty), "{second}");
}

pub(super) fn metadata_alone_is_listed_and_watched(http: &Http) {
    create(http, "a", &json!({}));
    merge(http, "a", &json!({"data": {"x": "1"}}));
    let as_list = [("Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")];
    let list = http.send("GET", MAPS, &as_list, b"").json();
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("PartialObjectMetadataList"), &json!("PartialObjectMetadata"))
    );
    assert!(list["items"][0].get("data").is_none());
    settle(http);
    let as_one = [("Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")];
    let event = http.open("GET", &format!("{MAPS}?watch=1"), &as_one, b"").unwrap().event().unwrap();
    assert_eq!((&event["object"]["kind"], event["object"].get("data")), (&json!("PartialObjectMetadata"), None));
}

//! Compacted history: 410 in upstream's words, and the place where each kind of client finds it.

use oarlock_testkit::Cluster;
use oarlock_testkit::http::{Answer, Http, Who};
use oarlock_testkit::wait::eventually;
use serde_json::{Value, json};

use super::{MAPS, SERVERS, create, delete, merge, pass_the_window, version, watch};

const LIST_TOO_OLD: &str = "The resourceVersion for the provided list is too old.";
const PAGE_TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list \
    without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing \
    with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the \
    first chunk was returned and now may show up in the list.";

fn names(list: &Value) -> Vec<&str> {
    let names = list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap());
    names.filter(|name| *name != "ballast").collect()
}

#[track_caller]
fn assert_expired(status: &Value, message: &str) {
    let expected = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Expired", "code": 410,
        "message": message, "metadata": status["metadata"]});
    assert_eq!(*status, expected);
}

pub(super) fn a_page_of_a_list_that_is_gone_offers_to_go_on_with_another(http: &Http) {
    for name in ["a", "b", "c", "d"] {
        create(http, name, &json!({}));
    }
    let page = |token: &str| -> Answer { http.get(&format!("{MAPS}?limit=2&continue={token}")) };
    let token = |status: &Value| status["metadata"]["continue"].as_str().unwrap().to_owned();
    let first = page("").json();
    assert_eq!(names(&first), ["a", "b"]);
    pass_the_window(http);
    delete(http, "c");
    create(http, "cc", &json!({}));
    let gone = page(&token(&first));
    assert_eq!(gone.code, 410, "{gone}");
    let gone = gone.json();
    assert_expired(&gone, PAGE_TOO_OLD);
    assert_eq!(gone["metadata"].as_object().unwrap().len(), 1, "nothing but the token: {gone}");
    // The second list continues behind the last key of the page, at the latest revision.
    let rest = page(&token(&gone));
    assert_eq!((rest.code, names(&rest.json())), (200, vec!["cc", "d"]), "{rest}");
    assert!(version(&rest.json()) > version(&first));
    // The first token stays expired.
    assert_eq!(page(&token(&first)).code, 410);
}

/// The steps of upstream's conformance specification of compacted continue tokens.
pub(super) fn a_page_of_objects_that_nobody_writes_expires_as_well(http: &Http) {
    const TEMPLATES: &str = "/api/v1/namespaces/default/podtemplates";
    let all: Vec<String> = (0..40).map(|n| format!("template-{n:04}")).collect();
    for name in &all {
        let containers = json!([{"name": "test", "image": "test2"}]);
        let template = json!({"metadata": {"name": name}, "template": {"spec": {"containers": containers}}});
        assert_eq!(http.json("POST", TEMPLATES, &template).code, 201);
    }
    let page = |token: &str| -> Answer { http.get(&format!("{TEMPLATES}?limit=4&continue={token}")) };
    let token = |object: &Value| object["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    let first = page("").json();
    assert_eq!(names(&first), all[..4]);
    assert_eq!(first["metadata"]["remainingItemCount"], 36);
    // Somebody must write for the store to have a revision to compact.
    create(http, "busy", &json!({}));
    let mut writes = 0;
    let gone = eventually("the token expires at every server", || {
        writes += 1;
        merge(http, "busy", &json!({"data": {"n": writes.to_string()}}));
        let answers: Vec<Answer> = (0..SERVERS).map(|_| page(&token(&first))).collect();
        let late = answers.iter().find(|answer| answer.code != 410);
        late.map_or_else(|| Ok(answers[0].json()), |answer| Err(answer.to_string()))
    });
    assert_expired(&gone, PAGE_TOO_OLD);
    let second = page(&token(&gone));
    assert_eq!(second.code, 200, "{second}");
    let mut list = second.json();
    assert_eq!(names(&list), all[4..8]);
    assert_eq!(list["metadata"]["remainingItemCount"], 32);
    assert!(version(&list) > version(&first), "{list}");
    let mut found: Vec<String> = all[..4].to_vec();
    loop {
        found.extend(names(&list).iter().map(|name| (*name).to_owned()));
        if token(&list).is_empty() {
            break;
        }
        let mut next = page(&token(&list));
        if next.code == 410 {
            // Between two requests a second can pass.
            next = page(&token(&next.json()));
        }
        assert_eq!(next.code, 200, "{next}");
        list = next.json();
    }
    assert_eq!(found, all, "each object once and in order");
}

pub(super) fn a_list_of_an_old_revision_is_refused(http: &Http) {
    let old = version(&create(http, "a", &json!({})));
    let exactly = format!("{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact");
    create(http, "b", &json!({}));
    assert_eq!(names(&http.get(&exactly).json()), ["a"], "as it was then");
    pass_the_window(http);
    for path in [exactly, format!("{MAPS}?resourceVersion={old}&limit=5")] {
        let gone = http.get(&path);
        assert_eq!(gone.code, 410, "{gone}");
        assert_expired(&gone.json(), LIST_TOO_OLD);
    }
    // A list that accepts any newer revision is served.
    for query in ["", "&resourceVersionMatch=NotOlderThan"] {
        let newer = http.get(&format!("{MAPS}?resourceVersion={old}{query}"));
        assert_eq!((newer.code, names(&newer.json())), (200, vec!["a", "b"]), "{newer}");
    }
}

pub(super) fn a_watch_from_an_old_revision_says_so_as_its_only_event(http: &Http) {
    let old = version(&create(http, "a", &json!({})));
    pass_the_window(http);
    for query in ["", "&allowWatchBookmarks=true", "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"] {
        let mut stream = watch(http, &format!("resourceVersion={old}{query}"));
        let event = stream.event().unwrap();
        assert_eq!(event["type"], "ERROR", "{event}");
        let message = event["object"]["message"].as_str().unwrap().to_owned();
        let oldest: u64 = message
            .strip_prefix(&format!("too old resource version: {old} ("))
            .and_then(|rest| rest.strip_suffix(')'))
            .and_then(|oldest| oldest.parse().ok())
            .unwrap_or_else(|| panic!("{message}"));
        assert!(oldest > old, "{message}");
        assert_expired(&event["object"], &message);
        assert!(stream.event().is_none(), "nothing follows");
        // The error names the oldest revision that can be watched.
        let mut stream = watch(http, &format!("resourceVersion={oldest}"));
        assert_eq!(stream.event().unwrap()["type"], "MODIFIED");
    }
}

#[test]
fn a_restart_takes_no_history_away() {
    let mut cluster = Cluster::up(&["--disable", "scheduler,controller-manager,kubelet"]);
    let old = version(&create(&cluster.http(Who::Admin), "a", &json!({})));
    create(&cluster.http(Who::Admin), "b", &json!({}));
    delete(&cluster.http(Who::Admin), "a");
    assert_eq!(cluster.stop(), Some(0));
    cluster.start();
    let http = cluster.http(Who::Admin);
    let mut stream = watch(&http, &format!("resourceVersion={old}"));
    assert_eq!(super::next(&mut stream), super::pair("ADDED", "b"));
    assert_eq!(super::next(&mut stream), super::pair("DELETED", "a"));
    create(&http, "c", &json!({}));
    assert_eq!(super::next(&mut stream), super::pair("ADDED", "c"));
}

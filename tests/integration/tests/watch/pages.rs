//! Lists in pages.

use oarlock_testkit::http::Http;
use serde_json::{Value, json};

use super::{MAPS, create, delete, settle};

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

pub(super) fn pages_are_one_list_of_one_moment(http: &Http) {
    for name in ["a", "b", "c", "d", "e"] {
        create(http, name, &json!({"odd": (name != "b" && name != "d").to_string()}));
    }
    let page = |query: &str| {
        let answer = http.get(&format!("{MAPS}?{query}"));
        assert_eq!(answer.code, 200, "{answer}");
        answer.json()
    };
    let first = page("limit=2");
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    // Writes between two pages do not change the list.
    create(http, "bb", &json!({}));
    delete(http, "d");
    let second = page(&format!("limit=2&continue={token}"));
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = page(&format!("limit=2&continue={token}"));
    assert_eq!(names(&third), ["e"]);
    assert!(
        third["metadata"].get("continue").is_none() && third["metadata"].get("remainingItemCount").is_none(),
        "{third}"
    );
    // With a selector the answer has no remaining item count.
    let some = page("limit=1&labelSelector=odd%3Dtrue");
    assert_eq!(names(&some), ["a"]);
    assert!(
        some["metadata"].get("remainingItemCount").is_none() && some["metadata"].get("continue").is_some(),
        "{some}"
    );
    settle(http);
    // At `resourceVersion=0` the limit is ignored, because the list comes from memory.
    assert_eq!(names(&page("limit=1&resourceVersion=0")), ["a", "b", "bb", "c", "e"]);
}

pub(super) fn a_deleted_collection_is_listed_in_the_answer(http: &Http) {
    for (name, tier) in [("a", "gold"), ("b", "tin"), ("c", "gold")] {
        create(http, name, &json!({"tier": tier}));
    }
    let answer = http.send("DELETE", &format!("{MAPS}?labelSelector=tier%3Dgold"), &[], b"");
    assert_eq!((answer.code, answer.json()["kind"].as_str()), (200, Some("ConfigMapList")), "{answer}");
    assert_eq!(names(&answer.json()), ["a", "c"]);
    assert_eq!(names(&http.get(MAPS).json()), ["b"]);
}

//! Fields that the server fills in when an object is created.

use std::collections::BTreeMap;

use oarlock_registry::kind;
use oarlock_registry::kind::{Request, Requester};
use oarlock_registry::prepare::before_create;
use oarlock_schema::{Value, resource};

#[test]
fn a_gated_pod_says_since_when_it_is_not_scheduled() {
    let pods = resource("", "v1", "pods").unwrap();
    let json =
        br#"{"metadata":{"name":"a","namespace":"b"},"spec":{"schedulingGates":[{"name":"x.y/z"}],"containers":[]}}"#;
    let mut pod = oarlock_registry::index::decode(json, pods.ty).unwrap();
    let extra = BTreeMap::new();
    let user = Requester { name: "u", uid: "", groups: &[], extra: &extra };
    let request = Request { resource: pods, endpoint: "", now: "2026-01-01T00:00:00Z", user };
    before_create(kind(pods), &request, "uid", &mut pod);
    let conditions = pod.at(&["status", "conditions"]).map_or(&[][..], Value::items);
    let [condition] = conditions else { panic!("{conditions:?}") };
    let text = |field: &str| condition.get(field).and_then(Value::as_str);
    assert_eq!((text("type"), text("reason")), (Some("PodScheduled"), Some("SchedulingGated")));
    // Later updates of a condition without a time would be refused.
    assert_eq!(text("lastTransitionTime"), Some("2026-01-01T00:00:00Z"));
}

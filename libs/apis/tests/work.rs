//! The cost of a list, map, text or number in any rule is at most its length times a logarithm: decoding, defaulting and validation run for each
//! field with a body of twice the size.

use std::sync::LazyLock;

use oarlock_apis::DisabledFields;
use oarlock_codec::{Mode, json, protobuf, yaml};
use oarlock_meta::Status;
use oarlock_schema::Obj;
use oarlock_testkit::bodies::{Place, places};
use oarlock_testkit::work::too_steep;

use crate::common;

/// Items of the smaller body; searched at each item, twice as many take longer than anything that is not judged.
const ITEMS: usize = 1_000;

static DISABLED: LazyLock<DisabledFields> = LazyLock::new(|| DisabledFields::of(&Default::default()));

type Step = (&'static str, fn(&Place, &str, &Obj) -> usize);

fn read(place: &Place, body: &str) -> Obj {
    json::decode(body.as_bytes(), place.resource.ty, Mode::Strict)
        .map_or_else(|_| Obj::new(place.resource.ty), |read| read.value)
}

const STEPS: &[Step] = &[
    ("read", |place, body, _| usize::from(json::decode(body.as_bytes(), place.resource.ty, Mode::Strict).is_ok())),
    ("read as YAML", |place, body, _| {
        usize::from(yaml::decode(body.as_bytes(), place.resource.ty, Mode::Strict).is_ok())
    }),
    ("read as protobuf", |place, _, obj| {
        usize::from(protobuf::decode(&protobuf::encode(obj), place.resource.ty).is_ok())
    }),
    ("complete", |_, _, obj| {
        let mut obj = obj.clone();
        DisabledFields::drop(&DISABLED, &mut obj, None);
        oarlock_apis::default(&mut obj);
        obj.entries().len()
    }),
    ("create", |place, _, obj| {
        let errors = oarlock_apis::validate_create(place.resource, obj);
        let kind = oarlock_meta::GroupKind::default();
        Status::invalid(&kind, "a", errors.as_slice()).message.len() + oarlock_apis::warnings(obj).len()
    }),
    ("update", |place, _, obj| oarlock_apis::validate_change(place.resource, "", obj, obj).len()),
    ("update from nothing", |place, _, obj| {
        oarlock_apis::validate_change(place.resource, "", obj, &Obj::new(place.resource.ty)).len()
    }),
];

#[test]
fn what_an_object_costs_grows_with_its_length_and_no_faster() {
    let places = places();
    assert!(places.len() > 1_000, "{} places", places.len());
    let mut steep = Vec::new();
    for place in &places {
        let make = |n: usize| {
            let body = place.body(n);
            let obj = read(place, &body);
            (body, obj)
        };
        for (step, run) in STEPS {
            if let Some(found) = too_steep(ITEMS, make, |(body, obj)| run(place, body, obj)) {
                steep.push(format!("{step} {}: {found}", place.name()));
            }
        }
    }
    assert!(steep.is_empty(), "{} of {} places:\n{}", steep.len(), places.len(), steep.join("\n"));
}

#[test]
fn a_list_repeats_nothing_without_a_search_at_each_item() {
    let validate = |(place, obj): &(&'static oarlock_schema::Resource, Obj)| {
        (oarlock_apis::validate_create(place, obj).len(), oarlock_apis::warnings(obj).len())
    };
    let joined = |n: usize, item: &dyn Fn(usize) -> String| (0..n).map(item).collect::<Vec<_>>().join(",");
    let of = |kind: &str, spec: String| {
        let text = format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"{kind}\",\"metadata\":{{\"name\":\"a\",\"namespace\":\"d\"}},\"spec\":{{{spec}}}}}"
        );
        common::obj(&serde_json::from_str(&text).unwrap())
    };
    let service = |n: usize| {
        let ports = joined(n, &|i| format!("{{\"name\":\"p{i}\",\"port\":{},\"protocol\":\"P{i}\"}}", i % 60_000 + 1));
        of("Service", format!("\"ports\":[{ports}]"))
    };
    let pod = |field: &'static str, item: &'static dyn Fn(usize) -> String| {
        move |n: usize| of("Pod", format!("\"containers\":[{{\"name\":\"c\",\"{field}\":[{}]}}]", joined(n, item)))
    };
    assert_eq!(too_steep(1_000, service, validate), None);
    assert_eq!(too_steep(1_000, pod("env", &|i| format!("{{\"name\":\"n{i}\"}}")), validate), None);
    let port = &|i: usize| format!("{{\"name\":\"p{i}\",\"containerPort\":{},\"protocol\":\"P{i}\"}}", i % 60_000 + 1);
    assert_eq!(too_steep(1_000, pod("ports", port), validate), None);
    let mount = &|i: usize| format!("{{\"name\":\"v{i}\",\"mountPath\":\"/m{i}\"}}");
    assert_eq!(too_steep(1_000, pod("volumeMounts", mount), validate), None);
    let scopes = |n: usize| {
        let hard = joined(n, &|i| format!("\"pods{i}\":\"1\""));
        of("ResourceQuota", format!("\"hard\":{{{hard}}},\"scopes\":[{}]", joined(n, &|_| "\"BestEffort\"".to_owned())))
    };
    assert_eq!(too_steep(1_000, scopes, validate), None);
}

//! The cost of a list, map, text or number in a patch, an apply or the kept owners is at most its length times a logarithm, for every patch type.

use oarlock_codec::{Mode, json};
use oarlock_meta::Time;
use oarlock_patch::apply::{Versions, Writer, apply, track_create, track_update};
use oarlock_patch::{PatchKind, Validation, apply_patch};
use oarlock_schema::Obj;
use oarlock_testkit::bodies::{Place, places};
use oarlock_testkit::work::too_steep;

/// Items of the smaller body.
const ITEMS: usize = 1_000;

struct Case {
    body: String,
    obj: Obj,
    owned: Obj,
    api_version: String,
}

fn writer<'a>(case: &'a Case, manager: &'a str) -> Writer<'a> {
    let now = Time::from_unix(0);
    Writer { manager, api_version: &case.api_version, subresource: "", reset: &[], now, versions: Versions::ONE }
}

fn make(place: &Place, n: usize) -> Case {
    let body = place.body(n);
    let ty = place.resource.ty;
    let obj = json::decode(body.as_bytes(), ty, Mode::Lenient).map_or_else(|_| Obj::new(ty), |read| read.value);
    let mut case = Case { body, owned: obj.clone(), obj, api_version: place.resource.group_version() };
    let mut owned = case.obj.clone();
    track_create(&mut owned, &writer(&case, "m"));
    case.owned = owned;
    case
}

type Step = (&'static str, fn(&Place, &Case) -> bool);

const STEPS: &[Step] = &[
    ("merge patch", |_, case| apply_patch(PatchKind::Merge, &case.obj, case.body.as_bytes(), Validation::Warn).is_ok()),
    ("strategic merge patch", |_, case| {
        apply_patch(PatchKind::Strategic, &case.obj, case.body.as_bytes(), Validation::Warn).is_ok()
    }),
    ("JSON patch", |place, case| {
        let path = place.pointer();
        let patch = format!(
            "[{{\"op\":\"test\",\"path\":\"\",\"value\":{}}},{{\"op\":\"remove\",\"path\":\"{path}\"}}]",
            case.body
        );
        apply_patch(PatchKind::Json, &case.obj, patch.as_bytes(), Validation::Warn).is_ok()
    }),
    ("apply", |_, case| {
        apply(Some(&case.owned), case.obj.ty(), case.body.as_bytes(), &writer(case, "n"), true, Validation::Warn)
            .is_ok()
    }),
    ("apply that conflicts", |_, case| {
        let live = Obj::new(case.obj.ty());
        apply(Some(&live), case.obj.ty(), case.body.as_bytes(), &writer(case, "n"), false, Validation::Warn).is_ok()
    }),
    ("owners of a new object", |_, case| {
        let mut obj = case.obj.clone();
        track_create(&mut obj, &writer(case, "m"));
        obj.is_empty()
    }),
    ("owners of a changed object", |_, case| {
        let mut obj = Obj::new(case.obj.ty());
        track_update(&case.owned, &mut obj, &writer(case, "n"));
        obj.is_empty()
    }),
];

#[test]
fn what_a_patch_costs_grows_with_its_length_and_no_faster() {
    let places = places();
    let mut steep = Vec::new();
    for place in &places {
        for (step, run) in STEPS {
            if let Some(found) = too_steep(ITEMS, |n| make(place, n), |case| run(place, case)) {
                steep.push(format!("{step} {}: {found}", place.name()));
            }
        }
    }
    assert!(steep.is_empty(), "{} of {} places:\n{}", steep.len(), places.len(), steep.join("\n"));
}

fn of_kind(kind: &str, object: &str) -> Obj {
    let ty = oarlock_schema::type_of_kind("", "v1", kind).unwrap();
    json::decode(object.as_bytes(), ty, Mode::Lenient).unwrap().value
}

fn joined(n: usize, item: impl Fn(usize) -> String) -> String {
    (0..n).map(item).collect::<Vec<_>>().join(",")
}

#[test]
fn patches_that_move_much_with_little_text_cost_no_more_than_their_length() {
    let map = |n: usize, key: char| joined(n, |i| format!("\"{key}{i:06}\":\"\""));
    let config =
        |n: usize| of_kind("ConfigMap", &format!("{{\"metadata\":{{\"name\":\"a\"}},\"data\":{{{}}}}}", map(n, 'z')));
    let nulls = |n: usize| (config(n), format!("{{\"data\":{{{}}}}}", joined(n, |i| format!("\"z{i:06}\":null"))));
    let before = |n: usize| (config(n), format!("{{\"data\":{{{}}}}}", map(n, 'a')));
    let remove = |n: usize| {
        (
            config(n),
            format!("[{}]", joined(n.min(10_000), |i| format!("{{\"op\":\"remove\",\"path\":\"/data/z{i:06}\"}}"))),
        )
    };
    let insert = |n: usize| {
        let add = joined(n.min(9_000), |_| "{\"op\":\"add\",\"path\":\"/x/0\",\"value\":1}".to_owned());
        let list = joined(20 * n, |_| "1".to_owned());
        (config(1), format!("[{{\"op\":\"add\",\"path\":\"/x\",\"value\":[{list}]}},{add}]"))
    };
    let patch = |kind: PatchKind| {
        move |case: &(Obj, String)| apply_patch(kind, &case.0, case.1.as_bytes(), Validation::Warn).is_ok()
    };
    for kind in [PatchKind::Merge, PatchKind::Strategic] {
        assert_eq!(too_steep(4_000, nulls, patch(kind)), None);
        assert_eq!(too_steep(4_000, before, patch(kind)), None);
    }
    assert_eq!(too_steep(4_000, remove, patch(PatchKind::Json)), None);
    assert_eq!(too_steep(1_000, insert, patch(PatchKind::Json)), None);
}

#[test]
fn lists_merge_by_looking_their_items_up() {
    let env = |n: usize, value: &str| joined(n, |i| format!("{{\"name\":\"n{i}\",\"value\":\"{value}\"}}"));
    let pod = |n: usize, value: &str| {
        format!("{{\"spec\":{{\"containers\":[{{\"name\":\"c\",\"env\":[{}]}}]}}}}", env(n, value))
    };
    let run = |(live, patch): &(Obj, String)| {
        apply_patch(PatchKind::Strategic, live, patch.as_bytes(), Validation::Warn).is_ok()
    };
    assert_eq!(too_steep(1_000, |n| (of_kind("Pod", &pod(n, "a")), pod(n, "b")), run), None);
    let deletes = |n: usize| {
        let gone = joined(n, |i| format!("{{\"name\":\"n{i}\",\"$patch\":\"delete\"}}"));
        (of_kind("Pod", &pod(n, "a")), format!("{{\"spec\":{{\"containers\":[{{\"name\":\"c\",\"env\":[{gone}]}}]}}}}"))
    };
    assert_eq!(too_steep(1_000, deletes, run), None);
    let ordered = |n: usize| {
        let order = joined(n, |i| format!("{{\"name\":\"n{}\"}}", n - 1 - i));
        let patch = format!("{{\"spec\":{{\"containers\":[{{\"name\":\"c\",\"$setElementOrder/env\":[{order}]}}]}}}}");
        (of_kind("Pod", &pod(n, "a")), patch)
    };
    assert_eq!(too_steep(1_000, ordered, run), None);
}

#[test]
fn many_owners_of_an_object_are_looked_up() {
    let entry = |i: usize| {
        format!(
            "{{\"manager\":\"m{i}\",\"operation\":\"Update\",\"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{{\"f:data\":{{\"f:k{i}\":{{}}}}}}}}"
        )
    };
    let make = |n: usize| {
        let data = joined(n, |i| format!("\"k{i}\":\"v\""));
        of_kind(
            "ConfigMap",
            &format!("{{\"metadata\":{{\"managedFields\":[{}]}},\"data\":{{{data}}}}}", joined(n, entry)),
        )
    };
    let create = |obj: &Obj| {
        let mut obj = obj.clone();
        let writer = Writer {
            manager: "w",
            api_version: "v1",
            subresource: "",
            reset: &[],
            now: Time::from_unix(0),
            versions: Versions::ONE,
        };
        track_create(&mut obj, &writer);
        obj.at(&["metadata", "managedFields"]).map(|list| list.items().len())
    };
    assert!(create(&make(300)).is_some_and(|owners| owners <= 11));
    assert_eq!(too_steep(1_000, make, create), None);
}

#[test]
fn an_order_whose_items_lack_the_merge_key_is_refused_without_a_patch_of_the_list_too() {
    let live = of_kind("Pod", "{\"spec\":{\"containers\":[{\"name\":\"c\"}]}}");
    let patch = b"{\"spec\":{\"$setElementOrder/containers\":[{\"image\":\"x\"}]}}";
    let refused = apply_patch(PatchKind::Strategic, &live, patch, Validation::Warn).unwrap_err();
    assert_eq!(refused.code, 500);
    assert_eq!(refused.message, "map: map[image:x] does not contain declared merge key: name");
}

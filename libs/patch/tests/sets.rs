//! Laws of field sets, and the two ways to compute the owners of a new object.

use std::collections::BTreeSet;

use oarlock_codec::{Mode, json};
use oarlock_meta::Time;
use oarlock_patch::apply::{Element, FieldSet, Versions, Writer, compare_structs, path_text, track_create, wire};
use oarlock_schema::{Struct, Value, type_of_kind};
use proptest::prelude::*;
use serde_json::Value as Json;

fn element() -> impl Strategy<Value = Element> {
    prop_oneof![
        "[a-c<\"é]{1,2}".prop_map(|name| Element::Field(name.as_str().into())),
        ("[ab]", "[a\\\\\"/]{0,2}").prop_map(|(name, value)| Element::Key(vec![
            ("k".into(), Value::Int(1)),
            (format!("n{name}").as_str().into(), Value::from(value)),
        ])),
        "[a\" ]{0,2}".prop_map(|value| Element::Value(Value::from(value))),
        (-2_i64..3).prop_map(|n| Element::Value(Value::Int(n))),
        (0_i64..3).prop_map(Element::Index),
    ]
}

fn paths() -> impl Strategy<Value = Vec<Vec<Element>>> {
    proptest::collection::vec(proptest::collection::vec(element(), 1..4), 0..12)
}

fn set(paths: &[Vec<Element>]) -> FieldSet {
    let mut out = FieldSet::default();
    paths.iter().for_each(|path| out.insert(path));
    out
}

fn flat(set: &FieldSet) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    set.paths(&mut |path| assert!(out.insert(path_text(path)), "a path came twice"));
    out
}

proptest! {
    #[test]
    fn operations_are_those_of_plain_sets(a in paths(), b in paths()) {
        let (x, y) = (set(&a), set(&b));
        let (fx, fy) = (flat(&x), flat(&y));
        prop_assert_eq!(flat(&x.union(&y)), &fx | &fy);
        prop_assert_eq!(flat(&x.intersection(&y)), &fx & &fy);
        prop_assert_eq!(flat(&x.difference(&y)), &fx - &fy);
        prop_assert_eq!(x.touches(&y), !fx.is_disjoint(&fy));
        prop_assert_eq!(x.difference(&x).is_empty(), true);
        for path in &a {
            prop_assert!(x.has(path));
            prop_assert_eq!(x.difference(&y).has(path), !y.has(path));
        }
    }

    #[test]
    fn removing_paths_removes_what_is_below(a in paths(), b in paths()) {
        let (x, y) = (set(&a), set(&b));
        let left = x.without(&y);
        for path in &a {
            let gone = (1..=path.len()).any(|n| y.has(&path[..n]));
            prop_assert_eq!(left.has(path), !gone);
        }
    }

    #[test]
    fn sets_survive_the_wire(a in paths()) {
        let x = set(&a);
        let text = wire::encode(&x);
        prop_assert!(serde_json::from_str::<Json>(&text).is_ok());
        prop_assert_eq!(wire::decode(&text).unwrap(), x.clone());
        // With spaces the fast reader gives up and the JSON decoder is used.
        let spaced = format!(" {text}");
        prop_assert_eq!(wire::decode(&spaced).unwrap(), x);
    }

    #[test]
    fn odd_texts_are_refused(text in "[{}\":.,fkvi a\\\\]{0,20}") {
        if let Some(set) = wire::decode(&text) {
            prop_assert_eq!(wire::decode(&wire::encode(&set)).unwrap(), set);
        }
    }
}

/// One way writes the text while walking the object; the other compares the object with an empty one.
#[test]
fn both_ways_to_a_new_objects_owners_agree() {
    let mut seen = 0;
    for data in [include_str!("data/apply.json"), include_str!("data/patches.json")] {
        let data: Json = serde_json::from_str(data).unwrap();
        let steps = data["steps"].as_array().or(data["cases"].as_array()).unwrap();
        for object in steps.iter().flat_map(|step| [&step["live"], &step["result"]]).filter(|object| !object.is_null())
        {
            let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
            let (group, short) = version.split_once('/').unwrap_or(("", version));
            let ty = type_of_kind(group, short, kind).unwrap();
            let bytes = serde_json::to_vec(object).unwrap();
            let mut obj = json::decode(&bytes, ty, Mode::Lenient).unwrap().value;
            obj.get_mut("metadata").and_then(Value::as_struct_mut).unwrap().remove_name("managedFields");
            let reset = ["status", "metadata.labels"];
            let writer = Writer {
                manager: "m",
                api_version: version,
                subresource: "",
                reset: &reset,
                now: Time::from_unix(0),
                versions: Versions::ONE,
            };
            let changes = compare_structs(&Struct::zero(ty), &obj);
            let mut nobodys = FieldSet::of_fields(&["apiVersion", "kind", "status", "metadata.labels"]);
            for name in ["creationTimestamp", "generation", "name", "namespace", "resourceVersion", "uid"] {
                nobodys.insert(&[Element::Field("metadata".into()), Element::Field(name.into())]);
            }
            let long = wire::encode(&changes.modified.union(&changes.added).without(&nobodys));
            track_create(&mut obj, &writer);
            let row = obj.at(&["metadata", "managedFields"]).and_then(|list| list.items().first());
            let short = row.and_then(|row| row.get("fieldsV1")).and_then(Value::as_str).unwrap_or("{}");
            assert_eq!(short, long.as_str());
            seen += 1;
        }
    }
    assert!(seen > 100);
}

//! A search in the `fieldsV1` text finds the same paths as a search in the parsed set; both ways to write the key of a field agree.

use oarlock_schema::TYPES;
use proptest::prelude::*;

use super::element::{Element, write_declared_key, write_field_key};
use super::set::FieldSet;
use super::wire;

fn set() -> impl Strategy<Value = FieldSet> {
    let element = prop_oneof![
        "[a-c\"é]{1,2}".prop_map(|name| Element::Field(name.as_str().into())),
        "[ab\\\\\"{}]{0,2}".prop_map(|value| Element::Key(vec![("k".into(), value.as_str().into())])),
        (0_i64..3).prop_map(Element::Index),
    ];
    proptest::collection::vec(proptest::collection::vec(element, 1..4), 0..8).prop_map(|paths| {
        let mut out = FieldSet::default();
        paths.iter().for_each(|path| out.insert(path));
        out
    })
}

#[test]
fn a_declared_field_has_the_key_of_its_name() {
    for def in TYPES.iter().flat_map(|ty| ty.fields) {
        let (mut declared, mut named) = (Vec::new(), Vec::new());
        write_declared_key(def, &mut declared);
        write_field_key(def.name, &mut named);
        named.push(b':');
        assert_eq!(declared, named, "{}", def.name);
    }
}

proptest! {
    #[test]
    fn a_text_is_touched_as_its_set_is(a in set(), b in set()) {
        prop_assert_eq!(wire::touches(&wire::encode(&a), &b), a.touches(&b));
        prop_assert_eq!(wire::touches(&wire::encode(&a), &a), !a.is_empty());
    }

    #[test]
    fn odd_texts_count_as_touched_or_not_but_never_panic(text in "[{}\":.,fk a\\\\]{0,20}", b in set()) {
        let _ = wire::touches(&text, &b);
    }
}

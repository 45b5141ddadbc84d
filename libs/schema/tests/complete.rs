//! The schema data is complete: every resource of a default 1.35, every field with the facts that walks need, every reference resolved.

#![cfg(test)]

use oarlock_schema::resources::GROUPS;
use oarlock_schema::{ListType, Presence, RESOURCES, Shape, TYPES, canonical, resource, type_named};

#[test]
fn serves_what_a_default_server_serves() {
    let upstreams = |group: &str| group != "oarlock.dev";
    let resources: Vec<_> = RESOURCES.iter().filter(|r| upstreams(r.group)).collect();
    let subresources: usize = resources.iter().map(|r| r.subresources.len()).sum();
    let versions: usize = GROUPS.iter().filter(|(group, _)| upstreams(group)).map(|(_, versions)| versions.len()).sum();
    assert_eq!((resources.len(), subresources, versions), (66, 45, 22));
}

#[test]
fn every_resource_is_found_by_its_path_and_has_a_served_type() {
    for row in RESOURCES {
        assert!(std::ptr::eq(resource(row.group, row.version, row.plural).unwrap(), row), "{}", row.plural);
        let gvk = row.ty.gvk.unwrap_or_else(|| panic!("{} has no kind", row.ty.name));
        assert_eq!((gvk.group, gvk.version, gvk.kind), (row.group, row.version, row.kind), "{}", row.plural);
        assert_eq!(row.has_verb("list"), row.list_ty.is_some(), "{}", row.plural);
        assert_eq!(row.has_verb("watch"), row.storage.is_some() && row.has_verb("list"), "{}", row.plural);
    }
}

#[test]
fn types_are_sorted_and_found_by_name() {
    assert!(TYPES.windows(2).all(|pair| pair[0].name < pair[1].name));
    for ty in TYPES {
        assert!(std::ptr::eq(type_named(ty.name).unwrap(), *ty));
        for (id, def) in ty.iter() {
            assert_eq!(ty.field(def.name).map(|(found, _)| found), Some(id), "{}.{}", ty.name, def.name);
        }
        for name in ["", "x", "kin", "absent", "a name that no type has", "metadata.name", "Metadata"] {
            assert!(ty.field(name).is_none(), "{}.{name}", ty.name);
        }
    }
}

#[test]
fn list_keys_name_fields_of_the_items() {
    for ty in TYPES {
        for def in ty.fields {
            if def.list == ListType::Map {
                assert!(!def.keys.is_empty(), "{}.{} has no keys", ty.name, def.name);
                let item =
                    def.shape.element_type().unwrap_or_else(|| panic!("{}.{} holds no structs", ty.name, def.name));
                for key in def.keys {
                    assert!(item.field(key).is_some(), "{}.{}: {} has no {key}", ty.name, def.name, item.name);
                }
            }
            if let Some(key) = def.merge_key {
                let item = def.shape.element_type().unwrap();
                assert!(item.field(key).is_some(), "{}.{}: {} has no {key}", ty.name, def.name, item.name);
            }
        }
    }
}

#[test]
fn the_table_of_always_present_fields_follows_the_rule() {
    for ty in TYPES {
        let by_rule: Vec<u16> = ty.iter().filter(|(_, def)| canonical::always(def)).map(|(id, _)| id.0).collect();
        assert_eq!(ty.always, by_rule, "{}", ty.name);
    }
}

#[test]
fn protobuf_numbers_are_unique_where_a_message_has_them() {
    for ty in TYPES {
        let mut seen = std::collections::HashSet::new();
        // kind and apiVersion of a top-level type travel in the envelope; their numbers are TypeMeta's own.
        let top_level = ty.gvk.is_some() || ty.field("metadata").is_some();
        let enveloped = |name: &str| top_level && matches!(name, "kind" | "apiVersion");
        for def in ty.fields.iter().filter(|d| d.number > 0 && !enveloped(d.name)) {
            assert!(seen.insert((def.via, def.number)), "{}.{}: number {} twice", ty.name, def.name, def.number);
        }
    }
}

#[test]
fn pointers_are_never_said_to_be_always_there_unless_they_are_null() {
    // `always` with a pointer means an explicit null; Go has few of these, and none is a list.
    for ty in TYPES {
        for def in ty.fields.iter().filter(|d| d.pointer && d.presence == Presence::Always) {
            assert!(!matches!(def.shape, Shape::List(_)), "{}.{}", ty.name, def.name);
        }
    }
}

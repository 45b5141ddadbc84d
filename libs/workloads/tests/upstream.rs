//! The revisions that upstream's controller made of our StatefulSets (`record.py`).

use oarlock_codec::{Mode, json};
use oarlock_schema::{Obj, Struct, Value, resource};
use oarlock_workloads::revision::{HASH_LABEL, bytes, data, name, restored};
use oarlock_workloads::{Fingerprint, History, Revision, Update};
use serde_json::Value as Json;

/// A recorded set and the revision of its template.
struct Recorded {
    set: Obj,
    revision: Obj,
}

impl Recorded {
    fn template(&self) -> &Struct {
        self.set.at(&["spec", "template"]).and_then(Value::as_struct).unwrap()
    }

    fn data(&self) -> &Value {
        self.revision.get("data").unwrap()
    }

    fn number(&self) -> i64 {
        self.revision.get("revision").and_then(Value::as_int).unwrap()
    }
}

fn recorded() -> Vec<Recorded> {
    let decoded = |plural: &str, object: &Json| {
        let ty = resource("apps", "v1", plural).unwrap().ty;
        json::decode(object.to_string().as_bytes(), ty, Mode::Strict).unwrap().value
    };
    let line = |line: &str| {
        let line: Json = serde_json::from_str(line).unwrap();
        Recorded {
            set: decoded("statefulsets", &line["set"]),
            revision: decoded("controllerrevisions", &line["revision"]),
        }
    };
    include_str!("data/revisions.jsonl").lines().map(line).collect()
}

#[test]
fn revisions_have_the_bytes_and_the_names_that_upstreams_controller_gave_them() {
    let all = recorded();
    assert!(all.len() >= 7, "{}", all.len());
    for one in &all {
        let made = data(one.template());
        let text = |data: &Value| String::from_utf8(bytes(data)).unwrap();
        assert_eq!(text(&made), text(one.data()), "{}", one.revision.name());
        // The name is made of all bytes, also of those that the server may have written otherwise in its answer.
        let hash = Fingerprint::of(&made).hash(0);
        assert_eq!(name(one.set.name(), &hash), one.revision.name());
        let label = one.revision.at(&["metadata", "labels", HASH_LABEL]).and_then(Value::as_str);
        assert_eq!(label, Some(hash.as_str()));
    }
}

#[test]
fn a_set_that_upstream_ran_needs_no_new_revision() {
    let all = recorded();
    for one in &all {
        let revisions = all.iter().filter(|other| other.set.name() == one.set.name());
        let history = History::new(revisions.map(|other| Revision {
            name: other.revision.name(),
            number: other.number(),
            created: None,
            data: Fingerprint::of(other.data()),
        }));
        match history.update(Fingerprint::of_template(one.template())) {
            Update::Newest(found) | Update::Raise(found, _) => assert_eq!(found.name, one.revision.name()),
            Update::New { .. } => panic!("{} has no revision for its template", one.set.name()),
        }
    }
}

#[test]
fn upstreams_revisions_restore_the_templates() {
    let all = recorded();
    for one in &all {
        for other in all.iter().filter(|other| other.set.name() == one.set.name()) {
            let restored = restored(&other.set, one.data()).unwrap();
            let template = restored.at(&["spec", "template"]).and_then(Value::as_struct).unwrap();
            // Numbers that a double does not hold are rounded, as upstream does.
            assert_eq!(Fingerprint::of_template(template), Fingerprint::of_template(one.template()));
        }
    }
}

#[test]
fn an_old_template_gets_its_old_revision_with_a_new_number() {
    let all = recorded();
    let of_plain: Vec<(&str, i64)> =
        all.iter().filter(|one| one.set.name() == "plain").map(|one| (one.revision.name(), one.number())).collect();
    let [(first, 1), (second, 2), (third, 3)] = of_plain.as_slice() else { panic!("{of_plain:?}") };
    assert!(first == third && first != second);
}

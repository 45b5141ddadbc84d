//! Objects as values of expressions: the decoded tree, read in place.

use crate::common::{Vars, check, run_with};
use oarlock_cel::Value;
use oarlock_codec::Mode;
use oarlock_schema::Obj;

const DEPLOYMENT: &str = r#"{"apiVersion": "apps/v1", "kind": "Deployment",
  "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web", "example.com/tier": "front"}, "creationTimestamp": null,
    "managedFields": [{"manager": "k", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]},
  "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
      {"name": "a", "image": "reg/a:1", "resources": {"limits": {"cpu": "500m"}}, "ports": [{"containerPort": 80}]},
      {"name": "b", "image": "reg/b:2", "securityContext": {"privileged": true}}]}},
    "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}}}}"#;

fn deployment() -> Obj {
    let row = oarlock_schema::resource("apps", "v1", "deployments").unwrap();
    oarlock_codec::json::decode(DEPLOYMENT.as_bytes(), row.ty, Mode::Strict).unwrap().value
}

#[test]
fn fields_are_found_by_name_and_missing_ones_are_errors() {
    let obj = deployment();
    let vars = Vars { values: [("object", Value::object(&obj))].into(), authorizer: None };
    check(
        &vars,
        &[
            ("object.kind", "\"Deployment\""),
            ("object.spec.replicas <= 5", "true"),
            ("object.spec.replicas + 1", "4"),
            ("object.metadata.labels['example.com/tier']", "\"front\""),
            ("object.metadata.labels.app", "\"web\""),
            ("'app' in object.metadata.labels", "true"),
            ("object.metadata.labels.all(k, k.size() > 2)", "true"),
            ("object.metadata.labels.transformMap(k, v, v.size())", "{\"app\":3,\"example.com/tier\":5}"),
            ("has(object.metadata.annotations)", "false"),
            ("has(object.metadata.labels) && has(object.metadata.labels.app)", "true"),
            ("object.metadata.annotations", "!no such key: annotations"),
            ("object.nothing", "!no such key: nothing"),
            ("object.kind.more", "!no such key: more"),
            ("object.metadata.?annotations[?'a'].orValue('none')", "\"none\""),
            ("object.spec.template.spec.containers.map(c, c.name)", "[\"a\",\"b\"]"),
            (
                "object.spec.template.spec.containers.filter(c, c.?securityContext.privileged.orValue(false)).size()",
                "1",
            ),
            ("object.spec.template.spec.containers.all(c, c.image.startsWith('reg/'))", "true"),
            ("object.spec.template.spec.containers[0].ports[0].containerPort", "80"),
            ("object.spec.template.spec.containers[2]", "!index out of bounds: 2"),
            (
                "quantity(object.spec.template.spec.containers[0].resources.limits.cpu).isLessThan(quantity('1'))",
                "true",
            ),
            ("object.spec.strategy.rollingUpdate.maxSurge", "1"),
            ("object.spec.strategy.rollingUpdate.maxUnavailable", "\"25%\""),
            ("type(object) == map", "true"),
            ("type(object.spec.template.spec.containers) == list", "true"),
            ("size(object.metadata.labels)", "2"),
            ("object == object", "true"),
            ("object.spec.selector.matchLabels == object.spec.template.metadata.labels", "true"),
            ("object.spec.selector.matchLabels == {'app': 'web'}", "true"),
            ("object.spec.template.spec.containers == []", "false"),
            ("object.metadata.managedFields[0].fieldsV1['f:spec']", "{\"f:replicas\":{}}"),
            ("object.spec.replicas == 3.0", "true"),
            ("object.spec.replicas < '5'", "!no such overload"),
            ("object.spec.replicas.all(i, true)", "!got 'types.Int', expected iterable type"),
        ],
    );
}

/// A text value borrows from the object's tree.
#[test]
fn texts_of_an_object_are_not_copied() {
    let obj = deployment();
    let vars = Vars { values: [("object", Value::object(&obj))].into(), authorizer: None };
    let program =
        oarlock_cel::Program::compile("object.metadata.labels['example.com/tier']", &crate::common::env()).unwrap();
    let mut budget = oarlock_cel::Budget::new(1000);
    let Value::String(oarlock_cel::Text::Borrowed(text)) = program.eval(&vars, &mut budget).unwrap() else {
        panic!("not borrowed");
    };
    let stored = obj.meta().labels().get("example.com/tier").unwrap();
    assert!(std::ptr::eq(text, stored));
}

#[test]
fn old_and_new_may_live_for_different_times() {
    let new = deployment();
    let program =
        oarlock_cel::Program::compile("x.spec.replicas == object.spec.replicas", &crate::common::env()).unwrap();
    for _ in 0..2 {
        let old = new.clone();
        let vars =
            Vars { values: [("object", Value::object(&new)), ("x", Value::object(&old))].into(), authorizer: None };
        let mut budget = oarlock_cel::Budget::new(1000);
        assert_eq!(program.eval(&vars, &mut budget).unwrap().as_bool(), Some(true));
    }
    assert!(run_with("object", &Vars::default()).is_err());
}

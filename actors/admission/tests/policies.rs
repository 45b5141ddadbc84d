//! ValidatingAdmissionPolicies: which requests they match, and the results.

use crate::common::{Admitted, Ask, Only, World, decode, resource};
use oarlock_admission::Operation;
use oarlock_admission::policy::{Action, BoundPolicy, Input, Policy, Question, Request, judge};
use oarlock_meta::Status;
use serde_json::{Value, json};

const PODS: &[&str] = &["pods"];

/// Stores a policy `p` about ConfigMaps and a binding `b` of it that denies; `spec` and `binding` override fields.
fn bind(world: &World, spec: &Value, binding: &Value) {
    let rules = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    let mut policy = json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false", "message": "no"}]});
    merge(&mut policy, spec);
    let mut bound = json!({"policyName": "p", "validationActions": ["Deny"]});
    merge(&mut bound, binding);
    world.put("validatingadmissionpolicies", &json!({"metadata": {"name": "p", "generation": 1}, "spec": policy}));
    world.put("validatingadmissionpolicybindings", &json!({"metadata": {"name": "b"}, "spec": bound}));
}

fn merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().unwrap() {
        match (&mut into[key], value) {
            (slot @ Value::Object(_), Value::Object(_)) => merge(slot, value),
            (slot, value) => *slot = value.clone(),
        }
    }
}

async fn config(world: &World, data: &Value) -> Result<Admitted, Status> {
    let object = json!({"metadata": {"name": "c", "labels": {"app": "web"}}, "data": data});
    world.create("configmaps", "n", &object).await
}

fn verdict(answer: Result<Admitted, Status>) -> String {
    answer.map_or_else(|status| status.message, |_| "admitted".to_owned())
}

const NO: &str = "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";

#[tokio::test]
async fn constraints_say_which_requests_a_policy_is_about() {
    let rule = |change: Value| {
        let mut rule =
            json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
        merge(&mut rule, &change);
        json!([rule])
    };
    let table = [
        (json!({}), true),
        (json!({"resourceRules": rule(json!({"operations": ["UPDATE"]}))}), false),
        (json!({"resourceRules": rule(json!({"operations": ["*"]}))}), true),
        (json!({"resourceRules": rule(json!({"apiGroups": ["apps"]}))}), false),
        (json!({"resourceRules": rule(json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}))}), true),
        (json!({"resourceRules": rule(json!({"apiVersions": ["v2"]}))}), false),
        (json!({"resourceRules": rule(json!({"resources": PODS}))}), false),
        (json!({"resourceRules": rule(json!({"resources": ["configmaps/status"]}))}), false),
        (json!({"resourceRules": rule(json!({"resources": ["*/*"]}))}), true),
        (json!({"resourceRules": rule(json!({"resourceNames": ["c"]}))}), true),
        (json!({"resourceRules": rule(json!({"resourceNames": ["d"]}))}), false),
        (json!({"resourceRules": rule(json!({"scope": "Cluster"}))}), false),
        (json!({"resourceRules": rule(json!({"scope": "Namespaced"}))}), true),
        (json!({"excludeResourceRules": rule(json!({}))}), false),
        (json!({"excludeResourceRules": rule(json!({"resourceNames": ["d"]}))}), true),
        (json!({"objectSelector": {"matchLabels": {"app": "web"}}}), true),
        (json!({"objectSelector": {"matchLabels": {"app": "db"}}}), false),
        (json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}), true),
        (
            json!({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}}),
            false,
        ),
    ];
    for (constraints, about) in &table {
        for of_binding in [false, true] {
            let world = World::with_namespace("n");
            world.put("namespaces", &json!({"metadata": {"name": "n", "labels": {"team": "a"}}}));
            let (spec, binding) = match of_binding {
                false => (json!({"matchConstraints": constraints}), json!({})),
                true => (json!({}), json!({"matchResources": constraints})),
            };
            bind(&world, &spec, &binding);
            let answer = verdict(config(&world, &json!({})).await);
            let want = if *about { format!("{NO}no") } else { "admitted".to_owned() };
            assert_eq!(answer, want, "{constraints} of_binding={of_binding}");
        }
    }
}

/// All resources that serve the same objects match, unless the policy asks for an exact match.
#[tokio::test]
async fn other_names_of_the_same_objects_count_unless_the_policy_is_exact() {
    for (policy, refused) in [("Equivalent", true), ("Exact", false)] {
        let world = World::with_namespace("n");
        let rules = json!([{"operations": ["*"], "apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "resources": ["events"]}]);
        bind(&world, &json!({"matchConstraints": {"resourceRules": rules, "matchPolicy": policy}}), &json!({}));
        let core = oarlock_schema::resource("", "v1", "events").unwrap();
        let event = json!({"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"namespace": "n"}});
        let (object, groups) = (decode(&event, core.ty), Vec::new());
        let ask = ask(core, Operation::Create, &groups);
        assert_eq!(world.ask(&ask, Some(object), None).await.is_err(), refused, "{policy}");
    }
}

fn ask<'a>(resource: &'static oarlock_schema::Resource, operation: Operation, groups: &'a [String]) -> Ask<'a> {
    let name = if operation == Operation::Create { "" } else { "c" };
    Ask { operation, resource, subresource: "", namespace: "n", name, user: "admin", groups }
}

#[tokio::test]
async fn policies_without_a_binding_and_of_other_policies_do_nothing() {
    let world = World::with_namespace("n");
    bind(&world, &json!({}), &json!({"policyName": "other"}));
    assert_eq!(verdict(config(&world, &json!({})).await), "admitted");
}

#[tokio::test]
async fn what_a_validation_says_becomes_text_reason_and_code() {
    let table = [
        (json!({"expression": "object.data.a == 'b'"}), "failed expression: object.data.a == 'b'", "Invalid", 422),
        (json!({"expression": " false ", "message": " sorry "}), "sorry", "Invalid", 422),
        (
            json!({"expression": "false", "message": "m", "messageExpression": "'not ' + object.data.a"}),
            "not x",
            "Invalid",
            422,
        ),
        (
            json!({"expression": "false", "message": "m", "messageExpression": "string(object.data.none)"}),
            "m",
            "Invalid",
            422,
        ),
        (json!({"expression": "false", "message": "m", "messageExpression": "'a\\nb'"}), "m", "Invalid", 422),
        (json!({"expression": "false", "messageExpression": "' '"}), "failed expression: false", "Invalid", 422),
        (json!({"expression": "false", "message": "m", "reason": "Forbidden"}), "m", "Forbidden", 403),
        (
            json!({"expression": "false", "message": "m", "reason": "RequestEntityTooLarge"}),
            "m",
            "RequestEntityTooLarge",
            413,
        ),
        (
            json!({"expression": "object.data.none == 'b'", "message": "m", "reason": "Forbidden"}),
            "expression 'object.data.none == 'b'' resulted in error: no such key: none",
            "Invalid",
            422,
        ),
    ];
    for (validation, text, reason, code) in table {
        let world = World::with_namespace("n");
        bind(&world, &json!({"validations": [validation]}), &json!({}));
        let status = config(&world, &json!({"a": "x"})).await.unwrap_err();
        assert_eq!(status.message, format!("{NO}{text}"));
        assert_eq!((status.reason.as_str(), status.code), (reason, code), "{text}");
        let causes = &status.details.as_ref().unwrap().causes;
        assert_eq!(causes[0].message, format!("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {text}"));
    }
}

#[tokio::test]
async fn what_fails_is_refused_or_ignored_as_the_policy_says() {
    let broken = [
        json!({"validations": [{"expression": "object.data.none == 'b'"}]}),
        json!({"matchConditions": [{"name": "a", "expression": "object.data.none == 'b'"}]}),
        json!({"validations": [{"expression": "lists.range(1000000).all(i, i >= 0)"}]}),
        json!({"validations": [{"expression": "does not compile"}]}),
        json!({"variables": [{"name": "v", "expression": "object.data.none"}], "validations": [{"expression": "variables.v == 1"}]}),
        json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Nothing"}}),
    ];
    for spec in broken {
        for (policy, admitted) in [("Fail", false), ("Ignore", true)] {
            let world = World::with_namespace("n");
            let mut spec = spec.clone();
            spec["failurePolicy"] = json!(policy);
            bind(&world, &spec, &json!({}));
            assert_eq!(config(&world, &json!({"a": "x"})).await.is_ok(), admitted, "{spec}");
        }
    }
}

#[tokio::test]
async fn match_conditions_narrow_a_policy() {
    for (conditions, want) in [
        (json!([{"name": "a", "expression": "object.data.a == 'x'"}]), format!("{NO}no")),
        (json!([{"name": "a", "expression": "object.data.a == 'y'"}]), "admitted".to_owned()),
        (
            json!([{"name": "a", "expression": "object.data.none == 'y'"}, {"name": "b", "expression": "request.name == 'd'"}]),
            "admitted".to_owned(),
        ),
        (
            json!([{"name": "a", "expression": "object.data.none == 'y'"}, {"name": "b", "expression": "request.name == 'c'"}]),
            format!("{NO}expression 'object.data.none == 'y'' resulted in error: no such key: none"),
        ),
    ] {
        let world = World::with_namespace("n");
        bind(&world, &json!({"matchConditions": conditions}), &json!({}));
        assert_eq!(verdict(config(&world, &json!({"a": "x"})).await), want, "{conditions}");
    }
}

#[tokio::test]
async fn a_binding_says_what_happens() {
    let warning = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no";
    for (actions, refused, warnings) in [
        (json!(["Deny"]), true, vec![]),
        (json!(["Warn"]), false, vec![warning]),
        (json!(["Audit"]), false, vec![]),
        (json!(["Warn", "Audit"]), false, vec![warning]),
    ] {
        let world = World::with_namespace("n");
        bind(&world, &json!({}), &json!({"validationActions": actions}));
        match config(&world, &json!({})).await {
            Ok(admitted) => {
                assert_eq!((false, admitted.warnings), (refused, warnings.iter().map(|w| (*w).to_owned()).collect()))
            }
            Err(_) => assert!(refused, "{actions}"),
        }
    }
}

#[tokio::test]
async fn parameters_come_from_where_the_binding_says() {
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "validations": [{"expression": "params == null || object.data.a != params.type", "messageExpression": "'as ' + params.metadata.name"}],
    });
    let deny = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    let table = [
        (json!({}), "x", "admitted".to_owned()),
        (json!({"name": "one", "parameterNotFoundAction": "Deny"}), "x", format!("{NO}as one")),
        (json!({"name": "one", "parameterNotFoundAction": "Deny"}), "y", "admitted".to_owned()),
        (json!({"name": "two", "namespace": "m", "parameterNotFoundAction": "Deny"}), "y", format!("{NO}as two")),
        (json!({"name": "none", "parameterNotFoundAction": "Deny"}), "y", format!("{NO}{deny}")),
        (json!({"name": "none", "parameterNotFoundAction": "Allow"}), "y", "admitted".to_owned()),
        (
            json!({"selector": {"matchLabels": {"is": "param"}}, "parameterNotFoundAction": "Deny"}),
            "z",
            format!("{NO}as three"),
        ),
        (
            json!({"selector": {"matchLabels": {"is": "not"}}, "parameterNotFoundAction": "Deny"}),
            "z",
            format!("{NO}{deny}"),
        ),
        (json!({"selector": {}, "parameterNotFoundAction": "Deny"}), "w", "admitted".to_owned()),
    ];
    for (reference, data, want) in table {
        let world = World::with_namespace("n");
        world.put("namespaces", &json!({"metadata": {"name": "m"}}));
        for (name, namespace, value) in [("one", "n", "x"), ("two", "m", "y"), ("three", "n", "z")] {
            let labels = json!({"is": if name == "three" { "param" } else { "other" }});
            world.put(
                "secrets",
                &json!({"metadata": {"name": name, "namespace": namespace, "labels": labels}, "type": value}),
            );
        }
        let binding = if reference == json!({}) { json!({}) } else { json!({"paramRef": reference}) };
        bind(&world, &spec, &binding);
        assert_eq!(verdict(config(&world, &json!({"a": data})).await), want, "{reference} {data}");
    }
}

#[tokio::test]
async fn expressions_see_the_request_its_objects_and_the_namespace() {
    let world = World::with_namespace("n");
    world.put("namespaces", &json!({"metadata": {"name": "n", "labels": {"team": "a"}}}));
    let all = [
        "request.operation == 'UPDATE' && request.name == 'c' && request.namespace == 'n' && !request.dryRun",
        "request.kind.kind == 'ConfigMap' && request.kind.group == '' && request.resource.resource == 'configmaps'",
        "request.requestKind == request.kind && !has(request.subResource) && !has(request.userInfo.uid)",
        "request.userInfo.username == 'admin' && request.userInfo.groups == ['g'] && request.options.kind == 'UpdateOptions'",
        "object.kind == 'ConfigMap' && object.data.a == 'new' && oldObject.data.a == 'old'",
        "object.metadata.name == 'c' && object.metadata.labels.app == 'web' && !has(object.immutable)",
        "namespaceObject.metadata.name == 'n' && namespaceObject.metadata.labels.team == 'a' && !has(namespaceObject.metadata.finalizers)",
        "variables.both == 'new-old' && variables.both.size() == 7 && variables.n + 1 == 4",
    ];
    let validations: Vec<Value> = all.iter().map(|text| json!({"expression": text})).collect();
    let variables = json!([
        {"name": "a", "expression": "object.data.a"},
        {"name": "both", "expression": "string(variables.a) + '-' + string(oldObject.data.a)"},
        {"name": "n", "expression": "3"},
    ]);
    bind(&world, &json!({"variables": variables, "validations": validations}), &json!({}));
    let row = resource("configmaps");
    let object = |value: &str| {
        let value =
            json!({"metadata": {"name": "c", "namespace": "n", "labels": {"app": "web"}}, "data": {"a": value}});
        decode(&value, row.ty)
    };
    let groups = vec!["g".to_owned()];
    let answer = world.ask(&ask(row, Operation::Update, &groups), Some(object("new")), Some(&object("old"))).await;
    assert_eq!(verdict(answer), "admitted");
}

#[tokio::test]
async fn deletions_have_only_an_old_object() {
    let world = World::with_namespace("n");
    let refuse =
        json!({"validations": [{"expression": "object != null || !has(oldObject.data.keep)", "message": "kept"}]});
    bind(&world, &refuse, &json!({}));
    let row = resource("configmaps");
    for (data, want) in [(json!({"keep": ""}), format!("{NO}kept")), (json!({"other": ""}), "admitted".to_owned())] {
        let old = decode(&json!({"metadata": {"name": "c", "namespace": "n"}, "data": data}), row.ty);
        assert_eq!(verdict(world.ask(&ask(row, Operation::Delete, &[]), None, Some(&old)).await), want);
    }
}

#[tokio::test]
async fn the_authorizer_is_asked_about_the_caller() {
    let check = "authorizer.group('').resource('pods').check('get').allowed() && !authorizer.requestResource.check('get').allowed()";
    for (rights, admitted) in
        [(Some(Only("get", "pods", None)), true), (Some(Only("get", "configmaps", None)), false), (None, false)]
    {
        let mut world = World::with_namespace("n");
        world.rights = rights;
        bind(&world, &json!({"validations": [{"expression": check}]}), &json!({}));
        assert_eq!(config(&world, &json!({})).await.is_ok(), admitted);
    }
}

/// A policy that refuses everything can still be removed.
#[tokio::test]
async fn policies_do_not_judge_policies() {
    let world = World::with_namespace("n");
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "*/*"]}]);
    bind(&world, &json!({"matchConstraints": {"resourceRules": rules}}), &json!({}));
    assert!(config(&world, &json!({})).await.is_err());
    let policy = json!({"metadata": {"name": "q"}, "spec": {}});
    assert!(world.create("validatingadmissionpolicies", "", &policy).await.is_ok());
}

#[tokio::test]
async fn a_new_generation_is_compiled_anew() {
    let world = World::with_namespace("n");
    bind(&world, &json!({}), &json!({}));
    assert!(config(&world, &json!({})).await.is_err());
    let rules = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    let spec = json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}]});
    world.put("validatingadmissionpolicies", &json!({"metadata": {"name": "p", "generation": 2}, "spec": spec}));
    assert!(config(&world, &json!({})).await.is_ok());
}

/// Questions and answers can be serialised, and a received question gives the same answer.
#[test]
fn questions_and_answers_are_plain_data() {
    let policies = resource("validatingadmissionpolicies");
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.data.a == params.data.a && oldObject == null", "messageExpression": "'want ' + params.data.a + ' in ' + namespaceObject.metadata.name"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "'saw ' + object.data.a"}],
    });
    let policy = Policy::compile(decode(
        &json!({"metadata": {"name": "p", "uid": "u", "generation": 3}, "spec": spec}),
        policies.ty,
    ));
    let config = |value: &str| {
        decode(&json!({"metadata": {"name": "c", "namespace": "n"}, "data": {"a": value}}), resource("configmaps").ty)
    };
    let input = Input {
        request: Request {
            operation: "CREATE".to_owned(),
            name: "c".to_owned(),
            namespace: "n".to_owned(),
            ..Request::default()
        },
        object: Some(config("x")),
        old: None,
        namespace: Some(decode(&json!({"metadata": {"name": "n"}}), resource("namespaces").ty)),
    };
    let actions = vec![Action::Deny, Action::Warn, Action::Audit];
    let params = vec![Some(config("y")), Some(config("x")), None];
    let asked = vec![BoundPolicy { policy: policy.id.clone(), binding: "b".to_owned(), actions, params }];
    let question = Question { input, asked };
    let known: std::collections::HashMap<_, _> = [(policy.id.clone(), std::sync::Arc::new(policy))].into();
    let answer = judge(&question, &known, None);
    let told: Vec<&str> = answer.denials.iter().map(|denial| denial.message.as_str()).collect();
    let failed =
        "expression 'object.data.a == params.data.a && oldObject == null' resulted in error: no such key: data";
    assert_eq!(told, ["want y in n", failed]);
    assert_eq!(answer.warnings.len(), 2);
    assert!(answer.annotations.contains(&("p/k".to_owned(), "saw x".to_owned())));
    assert!(answer.annotations[0].1.contains(r#""expressionIndex":0,"validationActions":["Deny","Warn","Audit"]"#));
    let over: Question = serde_json::from_str(&serde_json::to_string(&question).unwrap()).unwrap();
    assert_eq!(over, question);
    let again = judge(&over, &known, None);
    assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&answer).unwrap());
    // An unknown policy counts as one that refuses.
    let unknown = std::collections::HashMap::new();
    assert_eq!(judge(&question, &unknown, None).denials.len(), 1);
}

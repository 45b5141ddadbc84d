//! Errors and warnings, compared with those of a live upstream server for the same requests (`tests/record.py`).

use crate::common;
use oarlock_meta::{ErrorList, GroupKind, Status};
use serde_json::Value;

/// The reason, field and message of a cause, each once. Upstream appends a difference in Go's notation to some messages, which is left out; of
/// whole templates only the ends are compared, because upstream prints them as its internal types.
type Cause = (String, String, String);

fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match (line.len() > 400, line.rfind('}')) {
        (true, Some(end)) => format!("...{}", &line[end..]),
        _ => line.to_owned(),
    }
}

fn causes(list: &Value) -> Vec<Cause> {
    let text = |v: &Value| shorten(v.as_str().unwrap_or_default());
    let mut out: Vec<Cause> =
        list.as_array().unwrap().iter().map(|c| (text(&c["reason"]), text(&c["field"]), text(&c["message"]))).collect();
    out.sort();
    out.dedup();
    out
}

fn ours(errors: &ErrorList) -> Vec<Cause> {
    let cause = |e: &oarlock_meta::FieldError| (e.kind.as_str().to_owned(), e.field.clone(), shorten(&e.body()));
    let mut out: Vec<Cause> = errors.iter().map(cause).collect();
    out.sort();
    out.dedup();
    out
}

fn validate(row: &Value) -> (ErrorList, Vec<String>) {
    let (resource, mut new) = common::obj(&row["request"]);
    oarlock_apis::default(&mut new);
    if resource.kind == "Job" && row["old"].is_null() && row["request"]["spec"]["manualSelector"] != true {
        // The server generates a Job's selector before it validates.
        let name = new.name().to_owned();
        new.set_at(&["metadata", "uid"], "u");
        let label: oarlock_schema::Map = [("batch.kubernetes.io/controller-uid", "u")].into_iter().collect();
        new.set_at(&["spec", "selector", "matchLabels"], label);
        let labels = [
            ("batch.kubernetes.io/controller-uid", "u"),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", "u"),
            ("job-name", &name),
        ];
        let labels: oarlock_schema::Map = labels.into_iter().collect();
        new.set_at(&["spec", "template", "metadata", "labels"], labels);
    }
    // Only creation warns of names.
    let mut warnings = if row["old"].is_null() { oarlock_apis::name_warnings(&new) } else { Vec::new() };
    warnings.extend(oarlock_apis::warnings(&new));
    let errors = if row["old"].is_null() {
        oarlock_apis::validate_create(resource, &new)
    } else {
        oarlock_apis::validate_change(resource, "", &new, &common::obj(&row["old"]).1)
    };
    (errors, warnings)
}

#[test]
fn errors_and_warnings_are_those_of_upstream() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("data/invalid.jsonl").lines() {
        count += 1;
        let row: Value = serde_json::from_str(line).unwrap();
        let (errors, warnings) = validate(&row);
        let theirs = if row["answer"].is_null() { Vec::new() } else { causes(&row["answer"]["causes"]) };
        let mine = ours(&errors);
        if mine != theirs {
            let only = |a: &[Cause], b: &[Cause], mark: &str| -> String {
                a.iter().filter(|c| !b.contains(c)).map(|c| format!("  {mark} {c:?}\n")).collect()
            };
            wrong.push(format!(
                "{}\n{}{}",
                row["request"],
                only(&mine, &theirs, "ours  "),
                only(&theirs, &mine, "theirs")
            ));
            continue;
        }
        if let Some(theirs) = row["warnings"].as_array() {
            // Warnings about a kind as a whole do not come from the kind's rules.
            let of_kind = |text: &&str| text.contains(" is deprecated in v1.");
            let theirs: Vec<&str> = theirs.iter().filter_map(Value::as_str).filter(|text| !of_kind(text)).collect();
            if warnings != theirs {
                wrong.push(format!("{}\n  warns {warnings:?}\n  not   {theirs:?}", row["request"]));
            }
        }
        // With one error the whole Status is identical.
        if theirs.len() == 1 && row["answer"]["message"].as_str().is_some_and(|m| !m.contains('\n') && m.len() < 400) {
            let (resource, new) = common::obj(&row["request"]);
            let kind = GroupKind::new(resource.group, resource.kind);
            let status = Status::invalid(&kind, new.name(), errors.as_slice());
            assert_eq!(status.message, row["answer"]["message"].as_str().unwrap());
            assert_eq!(i64::from(status.code), row["answer"]["code"].as_i64().unwrap());
        }
    }
    assert!(count >= 600, "{count} rows");
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Each row is recorded: a stored object, the written status, and upstream's answer.
#[test]
fn what_is_written_as_a_status_is_judged_as_upstream_judges_it() {
    let (mut wrong, mut count, mut refused) = (Vec::new(), 0, 0);
    for line in include_str!("data/statuses.jsonl").lines() {
        count += 1;
        let row: Value = serde_json::from_str(line).unwrap();
        let (resource, mut new) = common::obj(&row["request"]);
        let (_, mut old) = common::obj(&row["old"]);
        for obj in [&mut new, &mut old] {
            oarlock_apis::default(obj);
            if resource.kind == "Pod" {
                oarlock_apis::core::pod_status::pair_addresses(obj);
            }
        }
        // The strategy of pods keeps a QoS class that the writer left out.
        if resource.kind == "Pod" && new.at(&["status", "qosClass"]).is_none() {
            new.set_at(&["status", "qosClass"], old.at(&["status", "qosClass"]).cloned().unwrap());
        }
        let mine = ours(&oarlock_apis::validate_change(resource, "status", &new, &old));
        let theirs = if row["answer"].is_null() { Vec::new() } else { causes(&row["answer"]["causes"]) };
        refused += usize::from(!theirs.is_empty());
        if mine != theirs {
            let status = &row["request"]["status"];
            wrong.push(format!("{} {status}\n  ours   {mine:?}\n  theirs {theirs:?}", resource.kind));
        }
    }
    assert!(count >= 120 && refused >= 70, "{refused} of {count} rows");
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Recorded from a live server.
#[test]
fn what_is_odd_about_names_and_claims_is_told() {
    let name = |used: &str| {
        format!(
            "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
        )
    };
    for (kind, used) in [
        (serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment"}), "Pod names and hostnames"),
        (serde_json::json!({"apiVersion": "v1", "kind": "Pod"}), "the Pod's hostname"),
    ] {
        let (_, mut obj) = common::obj(&kind);
        obj.set_at(&["metadata", "name"], "a.b");
        assert_eq!(oarlock_apis::name_warnings(&obj), [name(used)]);
        obj.set_at(&["metadata", "name"], "a-b");
        assert!(oarlock_apis::name_warnings(&obj).is_empty());
    }
    let (_, claim) = common::obj(&serde_json::json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "a.b", "annotations": {"volume.beta.kubernetes.io/storage-class": "x"}},
        "spec": {"resources": {"requests": {"storage": "1500m"}}}}));
    let told = [
        "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead",
        "spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
    ];
    assert_eq!(oarlock_apis::warnings(&claim), told);
    assert!(oarlock_apis::name_warnings(&claim).is_empty());
}

#[test]
fn rows_name_types_and_fields_of_the_schema() {
    assert_eq!(oarlock_apis::table::unknown_names(), Vec::<String>::new());
}

#[test]
fn subresources_may_change_what_the_object_itself_may_not() {
    let pod = |node: &str| {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        })
    };
    let (resource, mut old) = common::obj(&pod(""));
    let (_, mut new) = common::obj(&pod("n"));
    oarlock_apis::default(&mut old);
    oarlock_apis::default(&mut new);
    assert_eq!(oarlock_apis::validate_change(resource, "", &new, &old).len(), 1);
    for endpoint in ["binding", "status", "resize"] {
        assert!(oarlock_apis::validate_change(resource, endpoint, &new, &old).is_empty(), "{endpoint}");
    }
}

/// Counts from a live server: all kinds share two checks of a change, and some kinds' own rules repeat checks.
#[test]
fn metadata_errors_of_a_change_come_as_often_as_upstream_finds_them() {
    for (version, kind, plain, finalizer) in [
        ("v1", "ConfigMap", 4, 2),
        ("v1", "LimitRange", 3, 1),
        ("apps/v1", "Deployment", 3, 2),
        ("v1", "PersistentVolume", 4, 1),
        ("policy/v1", "PodDisruptionBudget", 2, 1),
    ] {
        let object = |labels: Value, finalizers: Value| {
            let metadata = serde_json::json!({
                "name": "a", "namespace": "b", "labels": labels, "finalizers": finalizers, "deletionTimestamp": "2026-01-01T00:00:00Z",
            });
            common::obj(&serde_json::json!({"apiVersion": version, "kind": kind, "metadata": metadata}))
        };
        let (resource, old) = object(Value::Null, Value::Null);
        let count = |new, field: &str| {
            oarlock_apis::validate_change(resource, "", &new, &old).iter().filter(|e| e.field == field).count()
        };
        let (_, labelled) = object(serde_json::json!({"a b": "c"}), Value::Null);
        assert_eq!(count(labelled, "metadata.labels"), plain, "{kind}");
        let (_, held) = object(Value::Null, serde_json::json!(["a.example.com/b"]));
        assert_eq!(count(held, "metadata.finalizers"), finalizer, "{kind}");
    }
}

#[test]
fn match_conditions_that_were_stored_unread_stay_until_one_changes() {
    let with = |expression: &str, timeout: i64| {
        let webhook = serde_json::json!({
            "name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": timeout,
            "clientConfig": {"url": "https://a"}, "matchConditions": [{"name": "a", "expression": expression}],
        });
        common::obj(&serde_json::json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "m", "resourceVersion": "1"}, "webhooks": [webhook],
        }))
    };
    let (resource, old) = with("1", 5);
    let change = |(_, new)| ours(&oarlock_apis::validate_change(resource, "", &new, &old));
    assert!(change(with("1", 6)).is_empty());
    let errors = change(with("2", 5));
    assert_eq!(
        errors.iter().map(|(_, field, _)| field.as_str()).collect::<Vec<_>>(),
        ["webhooks[0].matchConditions[0].expression"]
    );
}

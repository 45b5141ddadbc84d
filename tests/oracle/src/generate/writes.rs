//! Writes: creates, updates, every kind of patch, status, deletes.

use serde_json::{Value, json};

use super::{Subject, TABLE, name, with};
use crate::case::Step;

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub(super) fn creates(subject: &Subject) -> Vec<Step> {
    if !subject.has("create") {
        return Vec::new();
    }
    let mut steps = vec![
        Step::new("create-minimal", "POST {list}").body(subject.minimal.clone()),
        Step::new("create-full-dry", "POST {list}?dryRun=All").body(subject.full.clone()),
        Step::new("create-full", "POST {list}?fieldManager=full&fieldValidation=Strict").body(subject.full.clone()),
    ];
    if subject.has("get") {
        steps.push(Step::new("create-again", "POST {list}").body(subject.minimal.clone()));
        steps.push(Step::new("create-dry-other", "POST {list}?dryRun=Other").body(subject.minimal.clone()));
    }
    steps
}

pub(super) fn changes(subject: &Subject) -> Vec<Step> {
    let mut steps = Vec::new();
    if subject.has("update") {
        steps.extend(updates(subject));
    }
    if subject.has("patch") {
        steps.extend(patches());
        steps.extend(applies(subject));
    }
    if let Some(status) = subject.resource.subresource("status") {
        steps.push(Step::new("status-put", "PUT {minimal}/status").from(
            "get-minimal",
            json!({"metadata": {"resourceVersion": null, "labels": {"status": "put"}}, "status": {}}),
        ));
        if status.verbs.contains(&"patch") {
            let body = json!({"metadata": {"annotations": {"status": "patch"}}, "spec": {"unknown": 1}});
            steps.push(Step::new("status-patch", "PATCH {minimal}/status").content(MERGE).body(body));
        }
    }
    steps
}

fn updates(subject: &Subject) -> Vec<Step> {
    let label = |value: &str| json!({"metadata": {"labels": {"change": value}}});
    let put = |id: &str| Step::new(id, "PUT {minimal}");
    let missing = with(&subject.minimal, json!({"metadata": {"name": "missing"}}));
    vec![
        put("put-same").from("get-minimal", json!({})),
        put("put-changed").from("get-minimal", label("put")),
        put("put-stale").from("get-minimal", label("stale")),
        put("put-no-revision").body(with(&subject.minimal, label("unconditional"))),
        put("put-other-uid").body(with(&subject.minimal, json!({"metadata": {"uid": "other"}}))),
        put("put-other-name").body(with(&subject.minimal, json!({"metadata": {"name": "other"}}))),
        put("put-no-name").body(with(&subject.minimal, json!({"metadata": {"name": null}}))),
        put("put-other-namespace").body(with(&subject.minimal, json!({"metadata": {"namespace": "elsewhere"}}))),
        put("put-other-kind").body(with(&subject.minimal, json!({"kind": "Oracle"}))),
        put("put-bad-revision").body(with(&subject.minimal, json!({"metadata": {"resourceVersion": "many"}}))),
        Step::new("put-dry", "PUT {minimal}?dryRun=All").body(with(&subject.minimal, label("dry"))),
        Step::new("put-unknown", "PUT {minimal}?fieldValidation=Strict")
            .body(with(&subject.minimal, json!({"unknown": 1}))),
        Step::new("put-full-as-minimal", "PUT {minimal}?dryRun=All")
            .body(with(&subject.full, json!({"metadata": {"name": name(&subject.minimal)}}))),
        Step::new("put-missing", "PUT {list}/missing?dryRun=All").body(missing),
    ]
}

fn patches() -> Vec<Step> {
    let patch = |id: &str, query: &str, media: &str| Step::new(id, format!("PATCH {{minimal}}{query}")).content(media);
    let label = |value: &str| json!({"metadata": {"labels": {"change": value}}});
    let replace = |path: &str| json!([{"op": "replace", "path": path, "value": "json"}]);
    vec![
        patch("patch-merge", "", MERGE).body(label("merge")),
        patch("patch-merge-same", "", MERGE).body(label("merge")),
        patch("patch-strategic", "?fieldManager=other", STRATEGIC).body(
            json!({"metadata": {"labels": {"change": null}, "annotations": {"a": "b"}, "finalizers": ["oracle/one"]}}),
        ),
        patch("patch-strategic-list", "", STRATEGIC).body(
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["oracle/one"], "finalizers": ["oracle/two"]}}),
        ),
        patch("patch-json", "", JSON_PATCH).body(json!([
            {"op": "add", "path": "/metadata/labels/change", "value": "json"},
            {"op": "remove", "path": "/metadata/finalizers"},
        ])),
        patch("patch-json-missing-path", "", JSON_PATCH).body(replace("/metadata/none/such")),
        patch("patch-json-failed-test", "", JSON_PATCH)
            .body(json!([{"op": "test", "path": "/metadata/name", "value": "other"}])),
        patch("patch-json-bad-op", "", JSON_PATCH).body(json!([{"op": "twist", "path": "/metadata/name"}])),
        patch("patch-json-no-list", "", JSON_PATCH).body(label("json")),
        patch("patch-merge-list", "", MERGE).body(json!([1])),
        patch("patch-broken", "", MERGE).text("{"),
        patch("patch-name", "", MERGE).body(json!({"metadata": {"name": "other"}})),
        patch("patch-stale", "", MERGE)
            .body(json!({"metadata": {"resourceVersion": "1", "labels": {"change": "stale"}}})),
        patch("patch-unknown-strict", "?fieldValidation=Strict", MERGE)
            .body(json!({"unknown": 1, "metadata": {"unknown": 2}})),
        patch("patch-unknown", "", MERGE).body(json!({"unknown": 1})),
        patch("patch-wrong-type", "", MERGE).body(json!({"metadata": {"labels": "text"}})),
        patch("patch-invalid", "", MERGE).body(json!({"metadata": {"labels": {"a b": "c"}}})),
        patch("patch-forced", "?force=true", MERGE).body(label("forced")),
        patch("patch-dry", "?dryRun=All", MERGE).body(label("dry")),
        patch("patch-other-type", "", "application/json").body(label("other")),
        Step::new("patch-missing", "PATCH {list}/missing").content(MERGE).body(label("merge")),
        Step::new("patch-table", "PATCH {minimal}").content(MERGE).accept(TABLE).body(label("table")),
    ]
}

fn applies(subject: &Subject) -> Vec<Step> {
    let apply = |id: &str, query: &str| Step::new(id, format!("PATCH {{full}}{query}")).content(APPLY);
    let ident = json!({
        "apiVersion": subject.full.get("apiVersion"), "kind": subject.full.get("kind"),
        "metadata": {"name": name(&subject.full)},
    });
    let labels = |labels: Value| with(&ident, json!({"metadata": {"labels": labels}}));
    vec![
        apply("apply-no-manager", "").body(ident.clone()),
        apply("apply-new-label", "?fieldManager=one").body(labels(json!({"one": "1", "both": "x"}))),
        apply("apply-equal", "?fieldManager=two").body(labels(json!({"both": "x"}))),
        apply("apply-conflict", "?fieldManager=two").body(labels(json!({"one": "2"}))),
        apply("apply-forced", "?fieldManager=two&force=true").body(labels(json!({"one": "2"}))),
        apply("apply-less", "?fieldManager=two").body(labels(json!({}))),
        apply("apply-full", "?fieldManager=whole&force=true").body(subject.full.clone()),
        apply("apply-unknown", "?fieldManager=two").body(with(&ident, json!({"unknown": 1}))),
        apply("apply-managed", "?fieldManager=two")
            .body(with(&ident, json!({"metadata": {"managedFields": [{"manager": "a"}]}}))),
        apply("apply-other-kind", "?fieldManager=two").body(with(&ident, json!({"kind": "Oracle"}))),
        apply("apply-no-kind", "?fieldManager=two").body(with(&ident, json!({"kind": null, "apiVersion": null}))),
        Step::new("apply-creates", "PATCH {list}/missing?fieldManager=one&dryRun=All")
            .content(APPLY)
            .body(with(&subject.minimal, json!({"metadata": {"name": "missing"}}))),
        apply("apply-clear-managed", "?fieldManager=clear")
            .content(MERGE)
            .body(json!({"metadata": {"managedFields": [{}], "labels": {"one": null, "both": null}}})),
    ]
}

pub(super) fn deletes(subject: &Subject) -> Vec<Step> {
    let mut steps = Vec::new();
    if subject.has("delete") {
        let options = |body: Value| with(&json!({"kind": "DeleteOptions", "apiVersion": "v1"}), body);
        steps.extend([
            Step::new("delete-missing", "DELETE {list}/missing"),
            Step::new("delete-dry", "DELETE {minimal}?dryRun=All"),
            Step::new("delete-other-uid", "DELETE {minimal}").body(options(json!({"preconditions": {"uid": "other"}}))),
            Step::new("delete-other-revision", "DELETE {minimal}")
                .body(options(json!({"preconditions": {"resourceVersion": "1"}}))),
            Step::new("delete-bad-policy", "DELETE {minimal}?propagationPolicy=Other"),
            Step::new("delete-two-policies", "DELETE {minimal}")
                .body(options(json!({"propagationPolicy": "Orphan", "orphanDependents": true}))),
            Step::new("delete-negative-grace", "DELETE {minimal}?gracePeriodSeconds=-5&dryRun=All"),
            Step::new("delete-foreground", "DELETE {minimal}?propagationPolicy=Foreground&dryRun=All"),
            Step::new("delete-unknown-option", "DELETE {minimal}")
                .body(options(json!({"unknown": 1, "dryRun": ["All"]}))),
            Step::new("delete", "DELETE {minimal}?gracePeriodSeconds=0"),
            Step::new("delete-again", "DELETE {minimal}?gracePeriodSeconds=0"),
            Step::new("finalizer-added", "PATCH {full}")
                .content(MERGE)
                .body(json!({"metadata": {"finalizers": ["oracle/last"]}})),
            Step::new("delete-waits", "DELETE {full}?propagationPolicy=Background"),
            Step::new("delete-waits-still", "DELETE {full}?gracePeriodSeconds=0"),
            Step::new("finalizer-while-deleting", "PATCH {full}")
                .content(MERGE)
                .body(json!({"metadata": {"finalizers": ["oracle/last", "oracle/more"]}})),
            Step::new("finalizer-removed", "PATCH {full}")
                .content(MERGE)
                .body(json!({"metadata": {"finalizers": null}})),
            Step::new("get-deleted", "GET {full}"),
        ]);
    }
    if subject.has("deletecollection") {
        let plural = subject.resource.plural;
        steps.extend([
            Step::new("collection-none", format!("DELETE {{list}}?labelSelector=oracle%3Dnone-{plural}")),
            Step::new("collection-create", "POST {list}").body(subject.minimal.clone()),
            Step::new("collection-dry", format!("DELETE {{list}}?labelSelector=oracle%3D{plural}&dryRun=All")),
            Step::new("collection", format!("DELETE {{list}}?labelSelector=oracle%3D{plural}&gracePeriodSeconds=0")),
            Step::new("collection-after", format!("GET {{list}}?labelSelector=oracle%3D{plural}")),
        ]);
    }
    steps
}

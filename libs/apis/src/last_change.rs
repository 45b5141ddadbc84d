//! The last change of an object's spec: its verb, when it began, and whether it has ended. These rules bound the root spans of an object's life
//! (`docs/adr/0007-traces.md`).

use oarlock_meta::Time;
use oarlock_pods::{conditions, termination};
use oarlock_schema::views::core_v1::Pod;
use oarlock_schema::{Obj, Value};

/// Returns the verb of the last change: `create`, `update` or `delete`.
#[must_use]
pub fn verb(obj: &Obj) -> &'static str {
    match (is_deleting(obj), obj.meta().generation()) {
        (true, _) => "delete",
        (false, ..=1) => "create",
        (false, _) => "update",
    }
}

/// Returns when the last change began, to the second, as far as the object tells: its creation, its last write of the spec (by `managedFields`), or the
/// request to delete it. `None` for an object that lacks a creation time.
#[must_use]
pub fn began(obj: &Obj) -> Option<Time> {
    let meta = obj.meta();
    if let Some(ends) = meta.deletion_timestamp().filter(|at| !at.is_empty()) {
        let grace = meta.deletion_grace_period_seconds().unwrap_or(0);
        return Some(Time::from_unix(Time::parse(ends).ok()?.unix().saturating_sub(grace)));
    }
    let created = Time::parse(meta.creation_timestamp()).ok();
    if meta.generation() > 1 { last_write_of_spec(obj).max(created) } else { created }
}

/// Returns the newest time of the `managedFields` whose manager owns fields of the spec.
fn last_write_of_spec(obj: &Obj) -> Option<Time> {
    let entries = obj.at(&["metadata", "managedFields"]).map_or(&[][..], Value::items);
    let of_spec = entries.iter().filter(|entry| text(entry, "fieldsV1").contains("\"f:spec\""));
    of_spec.filter_map(|entry| Time::parse(text(entry, "time")).ok()).max()
}

/// Whether nothing is left to do for the last change: the object is what its spec asks for, or has failed for good. Objects of kinds for which no part of
/// the control plane has to bring something about are so at once. A deletion ends only with the object, unless the kind has no generations: then the
/// deletion is no change of its own.
#[must_use]
pub fn has_ended(obj: &Obj) -> bool {
    if is_deleting(obj) && obj.meta().generation() > 0 {
        return false;
    }
    match obj.ty().name {
        "core/v1.Pod" => obj
            .view::<Pod<'_>>()
            .is_some_and(|pod| termination::has_ended(pod.status()) || conditions::is_ready(pod.status())),
        "apps/v1.Deployment" => is_observed(obj) && has(obj, &["updatedReplicas", "replicas", "availableReplicas"]),
        "apps/v1.ReplicaSet" => is_observed(obj) && has(obj, &["replicas", "availableReplicas"]),
        "apps/v1.StatefulSet" => is_observed(obj) && has(obj, &["replicas", "availableReplicas"]) && is_updated(obj),
        "apps/v1.DaemonSet" => is_observed(obj) && is_on_all_nodes(obj),
        "batch/v1.Job" => ["Complete", "Failed"].iter().any(|kind| is_true(obj, kind)),
        _ => true,
    }
}

fn is_deleting(obj: &Obj) -> bool {
    obj.meta().deletion_timestamp().is_some_and(|at| !at.is_empty())
}

/// Whether the status is about the current generation.
fn is_observed(obj: &Obj) -> bool {
    number(obj, &["status", "observedGeneration"]).unwrap_or(0) >= obj.meta().generation()
}

/// Whether each of these counts of the status is the number of replicas that the spec asks for.
fn has(obj: &Obj, counts: &[&str]) -> bool {
    let wanted = number(obj, &["spec", "replicas"]).unwrap_or(1);
    counts.iter().all(|count| number(obj, &["status", count]).unwrap_or(0) == wanted)
}

/// Whether an available pod of a DaemonSet runs on each node that is to have one, with the set's template unless somebody else replaces the pods.
fn is_on_all_nodes(set: &Obj) -> bool {
    let wanted = number(set, &["status", "desiredNumberScheduled"]).unwrap_or(0);
    let has = |count: &str| number(set, &["status", count]).unwrap_or(0) >= wanted;
    has("numberAvailable") && (replaces_on_delete(set) || has("updatedNumberScheduled"))
}

/// Whether somebody else deletes the pods that have an earlier template.
fn replaces_on_delete(set: &Obj) -> bool {
    set.at(&["spec", "updateStrategy", "type"]).and_then(Value::as_str) == Some("OnDelete")
}

/// Whether all pods of a StatefulSet that are to be replaced have the revision of the set's template. Pods below the partition are not, and nobody knows
/// when somebody deletes those of an update on deletion.
fn is_updated(set: &Obj) -> bool {
    if replaces_on_delete(set) {
        return true;
    }
    let wanted = number(set, &["spec", "replicas"]).unwrap_or(1);
    let partition = number(set, &["spec", "updateStrategy", "rollingUpdate", "partition"]).unwrap_or(0);
    number(set, &["status", "updatedReplicas"]).unwrap_or(0) >= wanted - partition
}

fn is_true(obj: &Obj, kind: &str) -> bool {
    let conditions = obj.at(&["status", "conditions"]).map_or(&[][..], Value::items);
    conditions.iter().any(|one| text(one, "type") == kind && text(one, "status") == "True")
}

fn number(obj: &Obj, path: &[&str]) -> Option<i64> {
    obj.at(path).and_then(Value::as_int)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use oarlock_codec::Mode;
    use oarlock_schema::resource;
    use serde_json::{Value as Json, json};

    use super::*;

    fn object(group: &str, plural: &str, json: &Json) -> Obj {
        let ty = resource(group, "v1", plural).unwrap().ty;
        oarlock_codec::json::decode(json.to_string().as_bytes(), ty, Mode::Strict).unwrap().value
    }

    #[test]
    fn a_change_is_called_by_what_the_object_shows() {
        for (meta, expected) in [
            (json!({}), "create"),
            (json!({"generation": 1}), "create"),
            (json!({"generation": 2}), "update"),
            (json!({"generation": 2, "deletionTimestamp": "2026-01-01T00:00:30Z"}), "delete"),
            (json!({"deletionTimestamp": "2026-01-01T00:00:30Z"}), "delete"),
        ] {
            assert_eq!(verb(&object("", "pods", &json!({"metadata": meta}))), expected, "{meta}");
        }
    }

    #[test]
    fn a_change_begins_with_the_creation_the_last_write_of_the_spec_or_the_request_to_delete() {
        let created = "2026-01-01T00:00:00Z";
        let fields = json!([
            {"manager": "a", "time": "2026-01-01T00:00:10Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "b", "time": "2026-01-01T00:00:20Z", "fieldsV1": {"f:metadata": {"f:annotations": {}}}},
            {"manager": "c", "time": "2026-01-01T00:00:30Z", "fieldsV1": {"f:status": {}}, "subresource": "status"},
        ]);
        let meta = json!({"creationTimestamp": created, "generation": 1, "managedFields": fields});
        let begins = |more: Json| {
            let mut meta = meta.clone();
            meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            began(&object("apps", "deployments", &json!({"metadata": meta}))).map(|at| at.to_string())
        };
        assert_eq!(begins(json!({})).as_deref(), Some(created));
        assert_eq!(begins(json!({"generation": 2})).as_deref(), Some("2026-01-01T00:00:10Z"));
        assert_eq!(begins(json!({"generation": 2, "managedFields": []})).as_deref(), Some(created));
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:01:30Z", "deletionGracePeriodSeconds": 30});
        assert_eq!(begins(deleted).as_deref(), Some("2026-01-01T00:01:00Z"));
        assert_eq!(began(&object("", "pods", &json!({}))), None);
    }

    #[test]
    fn workloads_end_when_all_replicas_are_available_at_their_generation() {
        let deployment = |observed: i64, updated: i64, replicas: i64, available: i64| {
            let status = json!({
                "observedGeneration": observed,
                "updatedReplicas": updated,
                "replicas": replicas,
                "availableReplicas": available,
            });
            let json = json!({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": status});
            (has_ended(&object("apps", "deployments", &json)), has_ended(&object("apps", "replicasets", &json)))
        };
        assert_eq!(deployment(2, 3, 3, 3), (true, true));
        assert_eq!(deployment(1, 3, 3, 3), (false, false), "of an earlier generation");
        assert_eq!(deployment(2, 3, 3, 2), (false, false));
        assert_eq!(deployment(2, 2, 3, 3), (false, true), "an old replica is left");
        assert_eq!(deployment(2, 3, 4, 3), (false, false));
    }

    #[test]
    fn stateful_sets_end_when_all_pods_above_the_partition_are_updated_and_available() {
        let set = |strategy: Json, updated: i64, available: i64| {
            let status = json!({"observedGeneration": 2, "updatedReplicas": updated, "replicas": 3, "availableReplicas": available});
            let spec = json!({"replicas": 3, "updateStrategy": strategy});
            has_ended(&object(
                "apps",
                "statefulsets",
                &json!({"metadata": {"generation": 2}, "spec": spec, "status": status}),
            ))
        };
        let rolling = |partition: i64| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        assert!(set(rolling(0), 3, 3) && set(rolling(2), 1, 3) && set(rolling(9), 0, 3));
        assert!(!set(rolling(0), 2, 3) && !set(rolling(2), 0, 3) && !set(rolling(2), 1, 2));
        assert!(set(json!({"type": "OnDelete"}), 0, 3) && !set(json!({"type": "OnDelete"}), 0, 2));
    }

    #[test]
    fn daemon_sets_end_when_an_updated_and_available_pod_runs_on_each_node() {
        let set = |strategy: &str, observed: i64, updated: i64, available: i64| {
            let status = json!({"observedGeneration": observed, "desiredNumberScheduled": 3, "updatedNumberScheduled": updated,
                "numberAvailable": available});
            let spec = json!({"updateStrategy": {"type": strategy}});
            has_ended(&object(
                "apps",
                "daemonsets",
                &json!({"metadata": {"generation": 2}, "spec": spec, "status": status}),
            ))
        };
        assert!(set("RollingUpdate", 2, 3, 3) && set("OnDelete", 2, 0, 3));
        assert!(!set("RollingUpdate", 2, 2, 3) && !set("RollingUpdate", 2, 3, 2) && !set("OnDelete", 2, 3, 2));
        assert!(!set("RollingUpdate", 1, 3, 3), "of an earlier generation");
    }

    #[test]
    fn pods_and_jobs_end_by_their_conditions_and_other_objects_at_once() {
        let ended = |group: &str, plural: &str, status: Json| {
            has_ended(&object(group, plural, &json!({"metadata": {"generation": 1}, "status": status})))
        };
        let condition = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
        assert!(!ended("", "pods", json!({"phase": "Pending"})));
        assert!(!ended("", "pods", condition("Ready", "False")));
        assert!(ended("", "pods", condition("Ready", "True")));
        assert!(ended("", "pods", json!({"phase": "Failed"})) && ended("", "pods", json!({"phase": "Succeeded"})));
        assert!(!ended("batch", "jobs", condition("Suspended", "True")));
        assert!(!ended("batch", "jobs", condition("Complete", "False")));
        assert!(
            ended("batch", "jobs", condition("Complete", "True"))
                && ended("batch", "jobs", condition("Failed", "True"))
        );
        assert!(ended("", "services", json!({})));
    }

    #[test]
    fn a_deletion_ends_with_the_object_if_it_is_a_change_of_its_own() {
        let marked = |generation: i64| {
            let meta = json!({"generation": generation, "deletionTimestamp": "2026-01-01T00:01:30Z"});
            has_ended(&object("", "services", &json!({"metadata": meta})))
        };
        assert!(!marked(2));
        assert!(marked(0));
    }
}

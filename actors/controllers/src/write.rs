//! API writes that several controllers share.

use futures::stream::{self, StreamExt};
use oarlock_apis::last_change;
use oarlock_client::{Client, ListOptions, Object, PatchType, WriteOptions};
use oarlock_informer::{Key, ObjMeta, ObjectRef};
use oarlock_meta::{FieldSelector, Status, Time};
use oarlock_runtime::clock;
use oarlock_schema::views::{View, core_v1};
use oarlock_schema::{Obj, Resource, Struct, TypeRef, Value};
use serde_json::json;

use crate::change_root::Turning;
use crate::harness::Env;

/// The most concurrent writes of one reconcile.
pub(crate) const IN_FLIGHT: usize = 64;

/// Returns the wall time in whole seconds, the precision of API objects.
pub(crate) fn now() -> Time {
    Time::from_unix(clock::wall().as_second())
}

/// Reads the whole object of a cached projection from the API server.
///
/// # Errors
/// 409 when the object is not at the cached revision any more, so that the caller must decide anew. Otherwise the server's Status.
pub(crate) async fn current(client: &Client, resource: &'static Resource, meta: &ObjMeta) -> Result<Obj, Status> {
    let object = client.get(resource, meta.namespace(), meta.name()).await?;
    if object.revision != meta.revision {
        return Err(Status::conflict_modified(&resource.group_resource(), meta.name()));
    }
    object.obj()
}

/// Reads the most recent state of one object with the verb list, because upstream's roles of most controllers of pods lack the verb get.
///
/// # Errors
/// The server's Status.
pub(crate) async fn find_listed(
    client: &Client,
    resource: &'static Resource,
    key: &Key,
) -> Result<Option<Object>, Status> {
    let only = ListOptions::fields(FieldSelector::equal("metadata.name", &*key.name));
    Ok(client.list(resource, &key.namespace, only).await?.items.into_iter().next())
}

/// Changes the object of a cached projection, or the object's status.
///
/// # Errors
/// As [`current`].
pub(crate) async fn update(
    client: &Client,
    resource: &'static Resource,
    subresource: &'static str,
    meta: &ObjMeta,
    change: impl FnOnce(&mut Obj),
) -> Result<Object, Status> {
    let mut object = current(client, resource, meta).await?;
    change(&mut object);
    client.update_subresource(resource, subresource, object).await
}

/// Changes the status of the workload of a cached projection. The root span of a change that has ended with the new status is recorded.
///
/// # Errors
/// As [`current`].
pub(crate) async fn update_status(
    env: &Env,
    resource: &'static Resource,
    meta: &ObjMeta,
    change: impl FnOnce(&mut Obj),
) -> Result<Object, Status> {
    change_status(env, resource, current(&env.client, resource, meta).await?, change).await
}

/// As [`update_status`], for a workload that has just been read or written.
///
/// # Errors
/// The server's Status.
pub(crate) async fn change_status(
    env: &Env,
    resource: &'static Resource,
    mut object: Obj,
    change: impl FnOnce(&mut Obj),
) -> Result<Object, Status> {
    let had_ended = last_change::has_ended(&object);
    change(&mut object);
    let turning = Turning::of(had_ended, &object);
    let written = env.client.update_status(resource, object).await;
    env.roots.written(turning, &written);
    written
}

/// Returns an owner reference to the managing controller, whose foreground deletion waits for the dependent.
pub(crate) fn owner(resource: &Resource, meta: &ObjMeta) -> serde_json::Value {
    json!({
        "apiVersion": resource.group_version(),
        "kind": resource.kind,
        "name": meta.name(),
        "uid": meta.uid.as_str(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Returns the owner reference of [`owner`] as a value of the type `ty`.
pub(crate) fn owner_node(ty: TypeRef, resource: &Resource, meta: &ObjMeta) -> Value {
    let fields = [
        ("apiVersion", Value::from(resource.group_version())),
        ("kind", resource.kind.into()),
        ("name", meta.name().into()),
        ("uid", meta.uid.as_str().into()),
        ("controller", true.into()),
        ("blockOwnerDeletion", true.into()),
    ];
    Value::Struct(node(ty, fields))
}

/// Builds a struct of these fields; names that the type lacks are left out.
pub(crate) fn node<'a>(ty: TypeRef, fields: impl IntoIterator<Item = (&'a str, Value)>) -> Struct {
    let mut node = Struct::new(ty);
    for (name, value) in fields {
        node.set_name(name, value);
    }
    node
}

/// Adopts `object`: makes `meta` its controller, unless the object is another incarnation by now.
///
/// # Errors
/// The server's Status.
pub(crate) async fn adopt(
    client: &Client,
    resource: &'static Resource,
    object: &ObjMeta,
    owner: serde_json::Value,
) -> Result<Object, Status> {
    let patch = json!({"metadata": {"ownerReferences": [owner], "uid": object.uid.as_str()}});
    patch_metadata(client, resource, object, &patch).await
}

/// Releases `object`: removes its owner reference.
///
/// # Errors
/// The server's Status; no error if the object is deleted or another incarnation.
pub(crate) async fn release(
    client: &Client,
    resource: &'static Resource,
    object: &ObjMeta,
    owner: &str,
) -> Result<Option<Object>, Status> {
    let patch =
        json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner}], "uid": object.uid.as_str()}});
    match patch_metadata(client, resource, object, &patch).await {
        Ok(object) => Ok(Some(object)),
        Err(status) if status.is_not_found() || status.is_invalid() || status.is_conflict() => Ok(None),
        Err(status) => Err(status),
    }
}

/// Merges a patch into the metadata of one incarnation of an object (precondition on the uid).
///
/// # Errors
/// The server's Status.
pub(crate) async fn patch_metadata(
    client: &Client,
    resource: &'static Resource,
    object: &ObjMeta,
    patch: &serde_json::Value,
) -> Result<Object, Status> {
    let key = (object.namespace(), object.name());
    let patch = (PatchType::Strategic, patch.to_string());
    client.patch(resource, "", key, patch, WriteOptions::default()).await
}

/// Runs calls, at most [`IN_FLIGHT`] concurrently; returns the answers in order of completion.
pub(crate) fn all<F: Future, I: IntoIterator<Item = F>>(calls: I) -> impl Future<Output = Vec<F::Output>> + use<F, I> {
    // Collected first: a future that holds the borrowing closures cannot be boxed for a trait.
    let calls: Vec<F> = calls.into_iter().collect();
    async move { stream::iter(calls).buffer_unordered(IN_FLIGHT).collect().await }
}

/// Runs calls in batches whose size doubles from one, at most `IN_FLIGHT` concurrently, and stops after a batch with a failure, so that a cluster that
/// refuses the first pod does not get a thousand requests (upstream `slowStartBatch`). Returns the answers in the order of the calls.
pub(crate) async fn slow_start<F, T>(count: usize, call: impl Fn(usize) -> F) -> Vec<Result<T, Status>>
where
    F: Future<Output = Result<T, Status>>,
{
    let (mut done, mut batch) = (Vec::new(), 1_usize);
    while done.len() < count {
        let from = done.len();
        let to = count.min(from.saturating_add(batch));
        let calls: Vec<F> = (from..to).map(&call).collect();
        let answers: Vec<Result<T, Status>> = stream::iter(calls).buffered(IN_FLIGHT).collect().await;
        let failed = answers.iter().any(Result::is_err);
        done.extend(answers);
        if failed {
            break;
        }
        batch = batch.saturating_mul(2);
    }
    done
}

/// Returns the reference to a cached object for Events.
pub(crate) fn about(resource: &Resource, meta: &ObjMeta) -> ObjectRef {
    ObjectRef::of(resource, meta)
}

/// Sets condition DisruptionTarget of a pod before its deletion, and phase Failed if no kubelet will set it any more (upstream
/// `PodDisruptionConditions`).
///
/// # Errors
/// The server's Status; no error if the pod is deleted.
pub(crate) async fn disrupted(
    client: &Client,
    pods: &'static Resource,
    pod: &ObjMeta,
    why: (&str, &str),
    failed: bool,
) -> Result<(), Status> {
    let found = find_listed(client, pods, &pod.key).await?;
    let Some(found) = found.filter(|found| found.uid() == pod.uid.0) else { return Ok(()) };
    let patch = (PatchType::Strategic, disruption(&found.obj()?, why, failed, now()).to_string());
    match client.patch(pods, "status", (pod.namespace(), pod.name()), patch, WriteOptions::default()).await {
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(()),
    }
}

/// Returns the patch of a pod's status for [`disrupted`]. The patch states the order of the conditions, so that a new condition comes last, not first.
fn disruption(pod: &Obj, (reason, message): (&str, &str), failed: bool, now: Time) -> serde_json::Value {
    const TYPE: &str = "DisruptionTarget";
    let conditions = pod.at(&["status", "conditions"]).map_or(&[][..], Value::items);
    let known = conditions.iter().find(|one| text(one, "type") == TYPE && text(one, "status") == "True");
    let since = known.map(|one| text(one, "lastTransitionTime")).filter(|since| !since.is_empty());
    let mut condition = json!({
        "type": TYPE,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": since.map_or_else(|| now.to_string(), str::to_owned),
    });
    if let Some(generation) = pod.at(&["metadata", "generation"]).and_then(Value::as_int)
        && let Some(condition) = condition.as_object_mut()
    {
        condition.insert("observedGeneration".to_owned(), generation.into());
    }
    let others = conditions.iter().map(|one| text(one, "type")).filter(|kind| !kind.is_empty());
    let mut order: Vec<serde_json::Value> = others.map(|kind| json!({"type": kind})).collect();
    if !order.iter().any(|one| one.get("type").and_then(serde_json::Value::as_str) == Some(TYPE)) {
        order.push(json!({"type": TYPE}));
    }
    let uid = pod.at(&["metadata", "uid"]).and_then(Value::as_str).unwrap_or("");
    let mut status = json!({"$setElementOrder/conditions": order, "conditions": [condition]});
    if failed && let Some(status) = status.as_object_mut() {
        status.insert("phase".to_owned(), "Failed".into());
    }
    json!({"metadata": {"uid": uid}, "status": status})
}

/// Adds a taint to a node unless the node has a taint of this key and effect.
pub(crate) fn add_taint(node: &mut Obj, key: &str, effect: &str) {
    let mut taints = taints(node);
    let same = |taint: &Value| text(taint, "key") == key && text(taint, "effect") == effect;
    if !taints.iter().any(same) {
        let fields = [("key", Value::from(key)), ("effect", effect.into())];
        taints.push(Value::Struct(self::node(core_v1::Taint::TYPE, fields)));
        node.set_at(&["spec", "taints"], Value::from_iter(taints));
    }
}

/// Removes the taints of a key from a node.
pub(crate) fn remove_taint(node: &mut Obj, key: &str) {
    let kept = taints(node).into_iter().filter(|taint| text(taint, "key") != key);
    node.set_at(&["spec", "taints"], Value::from_iter(kept));
}

fn taints(node: &Obj) -> Vec<Value> {
    node.at(&["spec", "taints"]).map_or_else(Vec::new, |taints| taints.items().to_vec())
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use oarlock_informer::Project;

    use super::*;
    use crate::project::PodView;

    #[test]
    fn the_condition_of_a_disruption_comes_last_and_keeps_its_place_and_time() {
        let resource = PodView::RESOURCE.find().unwrap();
        let mut pod = Obj::new(resource.ty);
        let condition = |kind: &str, at: &str| {
            let fields = [("type", Value::from(kind)), ("status", "True".into()), ("lastTransitionTime", at.into())];
            Value::Struct(node(core_v1::PodCondition::TYPE, fields))
        };
        let order = |pod: &Obj| {
            let patch = disruption(pod, ("Why", "because"), false, Time::from_unix(5));
            let status = &patch["status"];
            let order = status["$setElementOrder/conditions"].as_array().unwrap().iter();
            let order: Vec<String> = order.map(|one| one["type"].as_str().unwrap().to_owned()).collect();
            (order, status["conditions"][0]["lastTransitionTime"].as_str().unwrap().to_owned())
        };
        let (ready, target) = (condition("Ready", "1970-01-01T00:00:01Z"), "DisruptionTarget");
        pod.set_at(&["status", "conditions"], Value::from_iter([ready.clone()]));
        assert_eq!(order(&pod), (vec!["Ready".to_owned(), target.to_owned()], "1970-01-01T00:00:05Z".to_owned()));
        let known = condition(target, "1970-01-01T00:00:02Z");
        pod.set_at(&["status", "conditions"], Value::from_iter([known, ready]));
        assert_eq!(order(&pod), (vec![target.to_owned(), "Ready".to_owned()], "1970-01-01T00:00:02Z".to_owned()));
        let failed = disruption(&pod, ("Why", "because"), true, Time::from_unix(5));
        assert_eq!(failed["status"]["phase"], "Failed");
    }

    #[tokio::test]
    async fn calls_are_answered_in_their_order_and_none_follows_a_failed_batch() {
        let call = |at: usize| async move {
            // Later calls of a batch end first.
            for _ in at..10 {
                tokio::task::yield_now().await;
            }
            if at == 4 { Err(Status::internal_error("no")) } else { Ok(at) }
        };
        let answers: Vec<Option<usize>> = slow_start(10, call).await.into_iter().map(Result::ok).collect();
        assert_eq!(answers, [Some(0), Some(1), Some(2), Some(3), None, Some(5), Some(6)]);
    }
}

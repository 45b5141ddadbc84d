//! The spans that writes add to the lives of objects.

use std::sync::Arc;

use oarlock_client::{Call, DeleteOptions, PatchType, WriteOptions};
use oarlock_schema::{Obj, Resource, resource};
use oarlock_telemetry::traces::opentelemetry_sdk::trace::SpanData;
use oarlock_telemetry::traces::{self, Change, Settings};
use serde_json::{Value, json};

use super::world::{Refuses, World, caller, target};

fn row(group: &str, plural: &str) -> &'static Resource {
    resource(group, "v1", plural).unwrap()
}

fn decode(row: &'static Resource, json: &Value) -> Obj {
    oarlock_client::decode(row.ty, json.to_string().as_bytes()).unwrap()
}

fn options(dry_run: bool) -> WriteOptions {
    WriteOptions { dry_run, ..WriteOptions::default() }
}

struct Bench(World);

impl Bench {
    async fn new() -> Self {
        traces::start(Settings::ring());
        Self(World::new(Refuses::Never).await)
    }

    /// Creates an object in namespace `n`; returns its UID.
    async fn create(&self, row: &'static Resource, name: &str, json: Value) -> String {
        let mut obj = decode(row, &json);
        obj.set_at(&["metadata", "name"], name);
        if row.namespaced {
            obj.set_at(&["metadata", "namespace"], "n");
        }
        let (_, refused) = self.0.call(&target(row, "", ""), Call::Create(obj, options(false))).await;
        assert_eq!(refused, None);
        self.0.served(&target(row, "", name)).meta().uid().to_owned()
    }

    async fn patch(
        &self,
        row: &'static Resource,
        (subresource, name): (&str, &str),
        patch: Value,
        dry_run: bool,
    ) -> u16 {
        let call = Call::Patch(PatchType::Merge, patch.to_string().into(), options(dry_run));
        let (_, refused) = self.0.call(&target(row, subresource, name), call).await;
        refused.map_or(0, |status| status.code)
    }

    async fn delete(&self, row: &'static Resource, name: &str, grace: Option<i64>) {
        let options = DeleteOptions { grace_period_seconds: grace, ..DeleteOptions::default() };
        let (_, refused) = self.0.call(&target(row, "", name), Call::Delete(options)).await;
        assert_eq!(refused, None);
    }
}

fn spans(uid: &str) -> Vec<Arc<SpanData>> {
    traces::ring().unwrap().trace(Change::new(uid, 1).trace())
}

/// Returns the names of the spans in a life, in the order of their records.
fn names(uid: &str) -> Vec<String> {
    spans(uid).iter().map(|span| span.name.to_string()).collect()
}

fn deployment() -> Value {
    let labels = json!({"app": "web"});
    let spec = json!({"containers": [{"name": "c", "image": "x"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    json!({"spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}})
}

fn pod() -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": "x"}]}})
}

#[tokio::test(start_paused = true)]
async fn only_what_changes_the_desired_state_is_a_step_of_a_life() {
    let (bench, deployments) = (Bench::new().await, row("apps", "deployments"));
    let uid = bench.create(deployments, "web", deployment()).await;
    assert_eq!(names(&uid), ["commit"]);
    let web = ("", "web");
    let replicas = |replicas: i64| json!({"spec": {"replicas": replicas}});
    let status = json!({"status": {"replicas": 2, "observedGeneration": 1}});
    assert_eq!(bench.patch(deployments, ("status", "web"), status, false).await, 0);
    assert_eq!(names(&uid), ["commit"], "a status write");
    assert_eq!(bench.patch(deployments, web, replicas(3), false).await, 0);
    assert_eq!(names(&uid), ["commit"], "a write without effect");
    assert_eq!(bench.patch(deployments, web, replicas(4), true).await, 0);
    assert_eq!(names(&uid), ["commit"], "a dry run");
    let invalid = bench.patch(deployments, web, replicas(-1), false).await;
    let outdated = json!({"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 4}});
    assert_eq!((invalid, bench.patch(deployments, web, outdated, false).await), (422, 409));
    assert_eq!(names(&uid), ["commit"], "failed writes");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(bench.patch(deployments, web, label, false).await, 0);
    assert_eq!(names(&uid), ["commit"], "a label");
    assert_eq!(bench.patch(deployments, web, replicas(4), false).await, 0);
    assert_eq!(names(&uid), ["commit", "deployment create", "commit"]);
    let spans = spans(&uid);
    assert_eq!(spans[1].span_context.span_id(), Change::new(&uid, 1).context().span_id());
    let parents: Vec<_> = [0, 2].map(|at| spans[at].parent_span_id).into();
    assert_eq!(parents, [1, 2].map(|generation| Change::new(&uid, generation).context().span_id()));
}

#[tokio::test(start_paused = true)]
async fn a_change_for_which_nothing_is_left_to_do_ends_with_its_commit() {
    let bench = Bench::new().await;
    let config = row("", "configmaps");
    let uid = bench.create(config, "a", json!({"data": {"secret": "marked-value"}})).await;
    assert_eq!(names(&uid), ["commit", "configmap create"]);
    assert_eq!(bench.patch(config, ("", "a"), json!({"data": {"k": "w"}}), false).await, 0);
    assert_eq!(names(&uid).len(), 2, "an update of a kind without generations");
    bench.delete(config, "a", None).await;
    assert_eq!(names(&uid).len(), 2, "its deletion");
    assert!(spans(&uid).iter().all(|span| !format!("{span:?}").contains("marked-value")));
    let event = json!({"involvedObject": {"namespace": "n", "name": "a"}, "reason": "R", "type": "Normal"});
    for (row, json) in [(row("", "events"), event), (row("coordination.k8s.io", "leases"), json!({}))] {
        let uid = bench.create(row, "b", json).await;
        assert_eq!(names(&uid), [""; 0], "{}", row.plural);
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_linked_with_the_lives_of_the_owners() {
    let bench = Bench::new().await;
    let deployments = row("apps", "deployments");
    let owner = bench.create(deployments, "owner", deployment()).await;
    assert_eq!(bench.patch(deployments, ("", "owner"), json!({"spec": {"replicas": 5}}), false).await, 0);
    let steps = names(&owner).len();
    let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "owner", "uid": owner});
    let unknown = json!({"apiVersion": "a/v1", "kind": "B", "name": "c", "uid": "d"});
    let mut owned = pod();
    owned["metadata"] = json!({"ownerReferences": [reference, unknown]});
    let uid = bench.create(row("", "pods"), "owned", owned).await;
    assert_eq!((names(&uid), names(&owner).len()), (vec!["commit".to_owned()], steps));
    let span = &spans(&uid)[0];
    let linked: Vec<_> = span.links.iter().map(|link| link.span_context.span_id()).collect();
    assert_eq!(linked, [Change::new(&owner, 2), Change::new("d", 1)].map(|change| change.context().span_id()));
    let text = format!("{}-{}", Change::new(&owner, 2).trace(), linked[0]);
    assert!(
        span.attributes
            .iter()
            .any(|known| { known.key.as_str() == "oarlock.link.owner" && known.value.to_string().contains(&text) })
    );
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_linked_once_and_a_large_one_is_not_decoded() {
    let (bench, deployments) = (Bench::new().await, row("apps", "deployments"));
    let text = "x".repeat(200 << 10);
    let mut large = deployment();
    large["metadata"] = json!({"annotations": {"a": text}});
    large["spec"]["template"]["metadata"]["annotations"] = json!({"a": text});
    let mut owners = Vec::new();
    for (name, json) in [("large", large), ("small", deployment())] {
        owners.push(bench.create(deployments, name, json).await);
        assert_eq!(bench.patch(deployments, ("", name), json!({"spec": {"replicas": 5}}), false).await, 0);
    }
    let reference =
        |name: &str, uid: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid});
    let references = [("large", 0), ("small", 1), ("other", 1)].map(|(name, at)| reference(name, &owners[at]));
    let mut owned = pod();
    owned["metadata"] = json!({"ownerReferences": references});
    let uid = bench.create(row("", "pods"), "owned", owned).await;
    let linked: Vec<_> = spans(&uid)[0].links.iter().map(|link| link.span_context.span_id()).collect();
    // Both owners are at generation 2; that of the large one is not looked at.
    let expected = [Change::new(&owners[0], 1), Change::new(&owners[1], 2)];
    assert_eq!(linked, expected.map(|change| change.context().span_id()));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_ends_with_the_object() {
    let (bench, pods) = (Bench::new().await, row("", "pods"));
    let mut bound = pod();
    bound["spec"]["nodeName"] = "node".into();
    let uid = bench.create(pods, "bound", bound).await;
    bench.delete(pods, "bound", Some(30)).await;
    assert_eq!(names(&uid), ["commit", "pod create", "commit"], "the deletion is a change of its own");
    bench.delete(pods, "bound", Some(0)).await;
    assert_eq!(names(&uid), ["commit", "pod create", "commit", "pod delete"]);
    let last = &spans(&uid)[3];
    assert_eq!(last.span_context.span_id(), Change::new(&uid, 2).context().span_id());
    let waiting = bench.create(pods, "waiting", pod()).await;
    bench.delete(pods, "waiting", None).await;
    assert_eq!(names(&waiting), ["commit", "pod create"]);
    let ready = bench.create(pods, "ready", pod()).await;
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(bench.patch(pods, ("status", "ready"), status, false).await, 0);
    bench.delete(pods, "ready", None).await;
    assert_eq!(names(&ready), ["commit"], "the kubelet has recorded the root");
}

#[tokio::test(start_paused = true)]
async fn request_and_life_are_linked_both_ways() {
    let (bench, row) = (Bench::new().await, row("apps", "deployments"));
    let mut obj = decode(row, &deployment());
    obj.set_at(&["metadata", "name"], "web");
    obj.set_at(&["metadata", "namespace"], "n");
    let (request, caller, collection) = (traces::request_context(None).unwrap(), caller(), target(row, "", ""));
    let call = bench.0.call_as(&caller, &collection, Call::Create(obj, options(false)));
    let (_, refused) = traces::within(Some(request.clone()), call).await;
    assert_eq!(refused, None);
    let uid = bench.0.served(&target(row, "", "web")).meta().uid().to_owned();
    let commit = spans(&uid).into_iter().find(|span| span.name == "commit").unwrap();
    let [link] = &commit.links.links[..] else { panic!("{commit:?}") };
    assert_eq!(link.span_context.span_id(), request.span_id());
    assert_eq!(caller.take_changes(), [Change::new(&uid, 1).context()]);
}

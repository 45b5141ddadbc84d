//! Properties that depend on the order of the stages, and on every source passing all of them.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use oarlock_admission::{AdmissionStage, Attributes, Operation};
use oarlock_auth::UserInfo;
use oarlock_client::{Call, DeleteOptions, ListOptions, PatchType, WriteOptions};
use oarlock_meta::Status;
use oarlock_registry::index;
use oarlock_schema::{Obj, Resource, resource};

use super::world::{Refuses, World, body, caller, target};
use crate::call::Dispatch;
use crate::caller::Caller;
use crate::target::Target;

/// A mutating stage that runs the given function.
struct Mutates(fn(&mut Attributes<'_>) -> Result<(), Status>);

#[async_trait]
impl AdmissionStage for Mutates {
    fn name(&self) -> &'static str {
        "Mutates"
    }

    fn handles(&self, _: Operation) -> bool {
        true
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        (self.0)(attributes)
    }
}

fn row(group: &str, plural: &str) -> &'static Resource {
    resource(group, "v1", plural).unwrap()
}

fn object(row: &'static Resource, json: &str) -> Obj {
    let mut obj = index::decode(json.as_bytes(), row.ty).unwrap();
    oarlock_apis::default(&mut obj);
    obj
}

const MAP: &str = r#"{"metadata":{"name":"a","namespace":"n","uid":"u"}}"#;

async fn with_a_map(stage: Mutates) -> World {
    let world = World::of(|_| vec![Box::new(stage)]).await;
    let maps = row("", "configmaps");
    world.store(object(maps, MAP), maps).await;
    world
}

/// Returns successful calls on ConfigMaps.
fn calls() -> Vec<(&'static str, Call)> {
    let maps = row("", "configmaps");
    let write = WriteOptions::default;
    vec![
        ("", Call::Create(object(maps, r#"{"metadata":{"name":"b"}}"#), write())),
        ("a", Call::Update(object(maps, r#"{"metadata":{"name":"a"},"data":{"x":"y"}}"#), write())),
        ("a", Call::Patch(PatchType::Merge, Bytes::from_static(br#"{"data":{"x":"z"}}"#), write())),
        ("a", Call::Delete(DeleteOptions::default())),
    ]
}

#[tokio::test(start_paused = true)]
async fn what_a_mutating_stage_warns_of_reaches_the_caller_whether_it_refuses_or_not() {
    let warns: fn(&mut Attributes<'_>) -> Result<(), Status> = |attributes| {
        attributes.context.warnings.push("a warning".to_owned());
        Ok(())
    };
    let refuses: fn(&mut Attributes<'_>) -> Result<(), Status> = |attributes| {
        attributes.context.warnings.push("a warning".to_owned());
        Err(attributes.forbidden("refused"))
    };
    for (stage, code) in [(warns, 0), (refuses, 403)] {
        let world = with_a_map(Mutates(stage)).await;
        for (name, call) in calls() {
            let (caller, verb) = (caller(), call.verb());
            let end =
                Dispatch::new(&world.server, &caller).execute(&target(row("", "configmaps"), "", name), call).await;
            assert_eq!(end.err().map_or(0, |status| status.code), code, "{verb}");
            assert_eq!(caller.take_warnings(), ["a warning"], "{verb}");
        }
    }
}

/// Otherwise a user who may not grant a right could have a mutating stage grant it.
#[tokio::test(start_paused = true)]
async fn rights_are_checked_of_what_the_mutating_stages_have_made() {
    let world = World::of(|_| {
        vec![Box::new(Mutates(|attributes| {
            let granting = r#"{"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}"#;
            let granting = object(attributes.resource, granting);
            if let (Some(role), Some(rules)) = (attributes.object.as_deref_mut(), granting.get("rules")) {
                role.set_name("rules", rules.clone());
            }
            Ok(())
        }))]
    });
    let world = world.await;
    let roles = row("rbac.authorization.k8s.io", "clusterroles");
    let eve = || Caller::new(Arc::new(UserInfo::new("eve", [""; 0])), "test".into(), caller().deadline);
    let role = || object(roles, r#"{"metadata":{"name":"a","uid":"u"}}"#);
    let create = Call::Create(role(), WriteOptions::default());
    let end = Dispatch::new(&world.server, &eve()).execute(&target(roles, "", ""), create).await;
    assert_eq!(end.err().map(|status| status.code), Some(403), "create");
    world.store(role(), roles).await;
    let label = r#"{"metadata":{"name":"a","labels":{"a":"b"}}}"#;
    let update = Call::Update(object(roles, label), WriteOptions::default());
    let end = Dispatch::new(&world.server, &eve()).execute(&target(roles, "", "a"), update).await;
    assert_eq!(end.err().map(|status| status.code), Some(403), "update");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_keeps_nothing() {
    let world = World::new(Refuses::Never).await;
    let (maps, pods, services) = (row("", "configmaps"), row("", "pods"), row("", "services"));
    let deployments = row("apps", "deployments");
    let template = r#""template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let pod = r#"{"metadata":{"name":"a","namespace":"n","uid":"u"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let deployment = format!(
        r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u"}},"spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},{template}}}}}"#
    );
    world.store(object(maps, MAP), maps).await;
    world.store(object(pods, pod), pods).await;
    world.store(object(deployments, &deployment), deployments).await;
    let before = world.server.view().applied();
    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let delete = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    let patch = |kind, json: &'static str| Call::Patch(kind, Bytes::from_static(json.as_bytes()), dry.clone());
    let own = |row: &'static Resource, subresource: &str| {
        Call::Create(body(row.subresource(subresource).unwrap().ty.unwrap()), dry.clone())
    };
    let mut scale = body(deployments.subresource("scale").unwrap().ty.unwrap());
    scale.set_at(&["spec", "replicas"], 5);
    let mut binding = body(row("", "bindings").ty);
    binding.set_at(&["target", "name"], "node");
    let service = r#"{"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80}]}}"#;
    let changed = r#"{"metadata":{"name":"a"},"data":{"x":"y"}}"#;
    let applied = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"x":"y"}}"#;
    let manager = WriteOptions { field_manager: "m".into(), ..dry.clone() };
    for (row, subresource, name, call) in [
        (maps, "", "", Call::Create(object(maps, r#"{"metadata":{"name":"b"}}"#), dry.clone())),
        (maps, "", "", Call::Create(object(maps, r#"{"metadata":{"generateName":"b"}}"#), dry.clone())),
        (services, "", "", Call::Create(object(services, service), dry.clone())),
        (maps, "", "a", Call::Update(object(maps, changed), dry.clone())),
        (maps, "", "a", patch(PatchType::Merge, r#"{"data":{"x":"y"}}"#)),
        (maps, "", "b", Call::Patch(PatchType::Apply, Bytes::from_static(applied.as_bytes()), manager)),
        (maps, "", "a", Call::Delete(delete.clone())),
        (maps, "", "", Call::DeleteCollection(ListOptions::default(), delete.clone())),
        (pods, "status", "a", patch(PatchType::Merge, r#"{"status":{"message":"m"}}"#)),
        (pods, "", "a", Call::Delete(delete.clone())),
        (pods, "binding", "a", own(pods, "binding")),
        (pods, "eviction", "a", own(pods, "eviction")),
        (resource("", "v1", "bindings").unwrap(), "", "", Call::Create(binding, dry.clone())),
        (deployments, "scale", "a", Call::Update(scale, dry.clone())),
    ] {
        let shown = format!("{} {}/{subresource}", call.verb(), row.plural);
        let (_, end) = world.call(&target(row, subresource, name), call).await;
        assert_eq!(end, None, "{shown}");
        assert_eq!(world.server.view().applied(), before, "{shown}: something was written");
    }
}

/// A Service is removed by a deletion, or by the change that takes its last finalizer away.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_removed_gives_its_address_back() {
    let services = row("", "services");
    let addresses = row("networking.k8s.io", "ipaddresses");
    for finalizers in ["[]", r#"["example.org/a"]"#] {
        let world = World::new(Refuses::Never).await;
        let json =
            format!(r#"{{"metadata":{{"name":"a","finalizers":{finalizers}}},"spec":{{"ports":[{{"port":80}}]}}}}"#);
        let create = Call::Create(object(services, &json), WriteOptions::default());
        let here = target(services, "", "a");
        let given = || world.server.reader().list(addresses, None).len();
        assert_eq!(world.call(&Target { name: "", ..here }, create).await.1, None);
        assert_eq!(given(), 1, "an address is given");
        assert_eq!(world.call(&here, Call::Delete(DeleteOptions::default())).await.1, None);
        if finalizers != "[]" {
            assert_eq!(given(), 1, "a Service that is being deleted keeps its address");
            let patch = Bytes::from_static(br#"{"metadata":{"finalizers":null}}"#);
            let patch = Call::Patch(PatchType::Merge, patch, WriteOptions::default());
            assert_eq!(world.call(&here, patch).await.1, None);
        }
        assert!(world.server.view().get(&here.key("a").unwrap()).is_none());
        assert_eq!(given(), 0, "{finalizers}");
    }
}

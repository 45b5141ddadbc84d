//! Typed and untyped objects, written and read with kube-rs.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::discovery::Discovery;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::{data, map, maps, refusal};

pub(super) async fn a_typed_object_is_created_read_changed_and_deleted(client: Client) {
    let maps = maps(&client);
    let create = PostParams::default();
    let made = maps.create(&create, &map("one", &[("a", "1")])).await.unwrap();
    assert!(made.uid().is_some() && made.creation_timestamp().is_some(), "{made:?}");
    assert_eq!(maps.get("one").await.unwrap(), made);
    assert_eq!(refusal(maps.create(&create, &map("one", &[])).await), (409, "AlreadyExists".to_owned()));
    let mut next = made.clone();
    next.data.get_or_insert_default().insert("a".to_owned(), "2".to_owned());
    let next = maps.replace("one", &create, &next).await.unwrap();
    assert_ne!(next.resource_version(), made.resource_version());
    assert_eq!(refusal(maps.replace("one", &create, &made).await), (409, "Conflict".to_owned()));
    let patch = Patch::Merge(json!({"metadata": {"labels": {"tier": "gold"}}, "data": {"a": null, "b": "3"}}));
    let patched = maps.patch("one", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(data(&patched), [("b", "3")].into());
    maps.create(&create, &map("two", &[])).await.unwrap();
    let gold = maps.list(&ListParams::default().labels("tier=gold")).await.unwrap();
    assert_eq!(gold.items, [patched]);
    let page = maps.list(&ListParams::default().limit(1)).await.unwrap();
    assert_eq!((page.items.len(), page.metadata.remaining_item_count), (1, Some(1)));
    let rest = ListParams::default().limit(1).continue_token(page.metadata.continue_.as_deref().unwrap());
    assert_eq!(maps.list(&rest).await.unwrap().items[0].name_any(), "two");
    let uid = kube::api::Preconditions { uid: Some("another".to_owned()), resource_version: None };
    let other = DeleteParams { preconditions: Some(uid), ..DeleteParams::default() };
    assert_eq!(refusal(maps.delete("one", &other).await), (409, "Conflict".to_owned()));
    assert!(maps.delete("one", &DeleteParams::default()).await.unwrap().is_right(), "a Status: it is gone");
    assert_eq!(maps.get_opt("one").await.unwrap(), None);
    assert_eq!(refusal(maps.delete("one", &DeleteParams::default()).await), (404, "NotFound".to_owned()));
    maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
}

pub(super) async fn an_object_whose_type_comes_from_discovery_is_written_and_read(client: Client) {
    let found = Discovery::new(client.clone()).run().await.unwrap();
    let (resource, _) = found.resolve_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment")).expect("it is served");
    assert_eq!(resource, ApiResource::erase::<Deployment>(&()));
    let untyped: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    untyped.create(&PostParams::default(), &DynamicObject::new("web", &resource).data(spec)).await.unwrap();
    let typed: Api<Deployment> = Api::namespaced(client, "default");
    let seen = typed.get("web").await.unwrap();
    let strategy = seen.spec.as_ref().and_then(|spec| spec.strategy.as_ref()).and_then(|s| s.type_.as_deref());
    assert_eq!(strategy, Some("RollingUpdate"), "its defaults");
    let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let scaled = typed.patch_scale("web", &PatchParams::default(), &scale).await.unwrap();
    assert_eq!(scaled.spec.and_then(|spec| spec.replicas), Some(3));
    let seen = untyped.get("web").await.unwrap();
    assert_eq!((&seen.data["spec"]["replicas"], seen.metadata.generation), (&json!(3), Some(2)));
    let none = DynamicObject::new("none", &resource).data(json!({"spec": {"replicas": "three"}}));
    assert_eq!(refusal(untyped.create(&PostParams::default(), &none).await).0, 400);
}

pub(super) async fn server_side_apply_keeps_what_others_own(client: Client) {
    let maps = maps(&client);
    let apply = async |manager: &str, force: bool, data: serde_json::Value| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data});
        let params = PatchParams { force, ..PatchParams::apply(manager) };
        maps.patch("shared", &params, &Patch::Apply(object)).await
    };
    apply("first", false, json!({"a": "1", "b": "1"})).await.unwrap();
    let both = apply("second", false, json!({"b": "1", "c": "2"})).await.unwrap();
    assert_eq!(data(&both), [("a", "1"), ("b", "1"), ("c", "2")].into());
    assert_eq!(refusal(apply("second", false, json!({"a": "2"})).await), (409, "Conflict".to_owned()));
    let taken = apply("second", true, json!({"a": "2"})).await.unwrap();
    assert_eq!(data(&taken), [("a", "2"), ("b", "1")].into(), "c went with its only owner");
    let managers = taken.managed_fields().iter().filter_map(|entry| entry.manager.as_deref());
    assert!(managers.eq(["first", "second"]), "{:?}", taken.managed_fields());
    let left = apply("first", false, json!({})).await.unwrap();
    assert_eq!(data(&left), [("a", "2")].into());
}

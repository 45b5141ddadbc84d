//! Every endpoint that writes or connects passes its requests through the admission stages, in the right form.

use bytes::Bytes;
use oarlock_admission::Operation;
use oarlock_client::{Call, DeleteOptions, ListOptions, PatchType, WriteOptions};
use oarlock_meta::Revision;
use oarlock_schema::{Obj, RESOURCES, Resource, resource};

use super::world::{Refuses, WITNESSED, World, body, caller, name, target};
use crate::call::Dispatch;
use crate::http::options::Query;
use crate::http::request_info;
use crate::streaming;

/// Returns the writing calls of an endpoint; calls that only read or connect are left out.
fn writes(world: &World, row: &'static Resource, subresource: &str) -> Vec<(Operation, Call)> {
    let sub = row.subresource(subresource);
    let verbs = sub.map_or(row.verbs, |sub| sub.verbs);
    let own = sub.and_then(|sub| sub.ty).filter(|ty| !std::ptr::eq(*ty, row.ty));
    let here = target(row, "", "a");
    let update = || own.map_or_else(|| world.served(&here), body);
    let create = || own.map_or_else(|| body(row.ty), body);
    let mut calls = Vec::new();
    for verb in verbs {
        calls.extend(match *verb {
            "create" => Some((Operation::Create, Call::Create(create(), WriteOptions::default()))),
            "update" => Some((Operation::Update, Call::Update(update(), WriteOptions::default()))),
            "patch" => {
                let patch = Call::Patch(PatchType::Merge, Bytes::from_static(b"{}"), WriteOptions::default());
                Some((Operation::Update, patch))
            }
            "delete" => Some((Operation::Delete, Call::Delete(DeleteOptions::default()))),
            "deletecollection" => {
                let call = Call::DeleteCollection(ListOptions::default(), DeleteOptions::default());
                Some((Operation::Delete, call))
            }
            "get" | "list" | "watch" => None,
            other => panic!("nobody has said what the stages see of {other}"),
        });
    }
    calls
}

#[tokio::test(start_paused = true)]
async fn every_write_and_connection_passes_the_stages_as_what_it_is() {
    let world = World::with_one_of_each(Refuses::AtOnce).await;
    let mut count = 0;
    for row in RESOURCES {
        let subresources = row.subresources.iter().map(|sub| sub.name);
        for subresource in std::iter::once("").chain(subresources) {
            let sub = row.subresource(subresource);
            let endpoint = format!("{}/{}/{}/{subresource}", row.group, row.version, row.plural);
            if subresource != "log" && request_info::is_streaming(subresource) {
                let path = format!("/api/v1/namespaces/n/{}/a/{subresource}", row.plural);
                let info = request_info::parse(&http::Method::GET, &path, "").unwrap();
                let here = target(row, subresource, "a");
                let end = streaming::admitted(&world.server, &caller(), &here, &info, &Query::new("")).await;
                assert!(end.is_err_and(|status| status.message.contains(WITNESSED)), "{endpoint}");
                let expected =
                    (Operation::Connect, endpoint, sub.and_then(|sub| sub.ty).map(|ty| ty.name), "a".to_owned());
                assert_eq!(std::mem::take(&mut *world.seen.lock()), [expected]);
                count += 1;
                continue;
            }
            for (operation, call) in writes(&world, row, subresource) {
                let verb = call.verb();
                let to_collection = matches!(verb, "deletecollection") || (verb == "create" && subresource.is_empty());
                let here = target(row, subresource, if to_collection { "" } else { "a" });
                let (seen, end) = world.call(&here, call).await;
                let shown = format!("{verb} {endpoint}: {end:?}");
                assert!(end.is_some_and(|status| status.message.contains(WITNESSED)), "{shown}");
                let [(saw, at, object, _)] = seen.as_slice() else { panic!("{shown}: {seen:?}") };
                assert_eq!((saw, at), (&operation, &endpoint), "{shown}");
                let own = sub.and_then(|sub| sub.ty).filter(|ty| !std::ptr::eq(*ty, row.ty));
                let stored = if row.storage.is_some() { here.stored_type() } else { row.ty };
                let expected = (operation != Operation::Delete).then(|| own.unwrap_or(stored).name);
                assert_eq!(*object, expected, "{shown}");
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count} requests");
}

/// The object that the stages see is valid only after all other stages of the pipeline have run.
#[tokio::test(start_paused = true)]
async fn bodies_of_subresources_and_reviews_are_validated_by_the_stages_before_anything_is_done() {
    let world = World::new(Refuses::WhatIsFinal).await;
    let template = r#""selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let plain = r#""selector":{"a":"b"},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    for (group, plural, spec) in [
        ("", "pods", r#""containers":[{"name":"c","image":"i"}]"#),
        ("", "serviceaccounts", ""),
        ("", "replicationcontrollers", plain),
        ("apps", "deployments", template),
        ("apps", "replicasets", template),
        ("apps", "statefulsets", template),
    ] {
        let row = resource(group, "v1", plural).unwrap();
        let spec = if spec.is_empty() { String::new() } else { format!(r#","spec":{{{spec}}}"#) };
        let json = format!(r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u"}}{spec}}}"#);
        let mut obj = oarlock_registry::index::decode(json.as_bytes(), row.ty).unwrap();
        oarlock_apis::default(&mut obj);
        world.store(obj, row).await;
    }
    for (group, plural, subresource) in [
        ("", "pods", "binding"),
        ("", "pods", "eviction"),
        ("", "serviceaccounts", "token"),
        ("", "replicationcontrollers", "scale"),
        ("apps", "deployments", "scale"),
        ("apps", "replicasets", "scale"),
        ("apps", "statefulsets", "scale"),
        ("", "bindings", ""),
    ] {
        let row = resource(group, "v1", plural).unwrap();
        for (_, call) in writes(&world, row, subresource).into_iter().filter(|(_, call)| call.verb() != "patch") {
            let (group, before) = (format!("{group}/v1/{plural}/{subresource}"), world.server.view().applied());
            let mut call = call;
            if let ("bindings", Call::Create(binding, _)) = (plural, &mut call) {
                binding.set_at(&["target", "name"], "node");
            }
            let here = target(row, subresource, if subresource.is_empty() { "" } else { "a" });
            let (seen, end) = world.call(&here, call).await;
            assert!(end.as_ref().is_some_and(|status| status.message.contains(WITNESSED)), "{group}: {end:?}");
            assert_eq!(seen.len(), 1, "{group}: {seen:?}");
            assert_eq!(seen[0].1, group);
            assert_eq!(world.server.view().applied(), before, "{group}: something was written");
        }
    }
    let spec = r#"{"spec":{"user":"u","resourceAttributes":{"verb":"get","resource":"pods","namespace":"n"}}}"#;
    let own = r#"{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}"#;
    for (group, plural, json) in [
        ("authorization.k8s.io", "subjectaccessreviews", spec),
        ("authorization.k8s.io", "localsubjectaccessreviews", spec),
        ("authorization.k8s.io", "selfsubjectaccessreviews", own),
        ("authorization.k8s.io", "selfsubjectrulesreviews", r#"{"spec":{"namespace":"n"}}"#),
        ("authentication.k8s.io", "tokenreviews", r#"{"spec":{"token":"t"}}"#),
        ("authentication.k8s.io", "selfsubjectreviews", "{}"),
    ] {
        let row = resource(group, "v1", plural).unwrap();
        let review = oarlock_registry::index::decode(json.as_bytes(), row.ty).unwrap();
        let (seen, end) = world.call(&target(row, "", ""), Call::Create(review, WriteOptions::default())).await;
        assert!(end.as_ref().is_some_and(|status| status.message.contains(WITNESSED)), "{plural}: {end:?}");
        assert_eq!((seen.len(), seen[0].2), (1, Some(row.ty.name)), "{plural}");
    }
}

/// An eviction changes and deletes a pod, and a binding changes one: the stages see only the Eviction or the Binding.
#[tokio::test(start_paused = true)]
async fn what_a_subresource_does_is_not_shown_as_another_request() {
    let world = World::new(Refuses::Never).await;
    let pods = resource("", "v1", "pods").unwrap();
    for name in ["a", "b"] {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}"}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
        );
        let mut pod = oarlock_registry::index::decode(json.as_bytes(), pods.ty).unwrap();
        oarlock_apis::default(&mut pod);
        world.store(pod, pods).await;
    }
    let seen_as = |subresource: &str, ty: &'static str| {
        [(Operation::Create, format!("/v1/pods/{subresource}"), Some(ty), "a".to_owned())]
    };
    for (subresource, ty) in [("binding", "core/v1.Binding"), ("eviction", "policy/v1.Eviction")] {
        let own = pods.subresource(subresource).unwrap().ty.unwrap();
        let call = Call::Create(body(own), WriteOptions::default());
        let (seen, end) = world.call(&target(pods, subresource, "a"), call).await;
        assert_eq!((end, seen.as_slice()), (None, seen_as(subresource, ty).as_slice()));
    }
    let left = world.server.view().get(&target(pods, "", "a").key("a").unwrap());
    assert!(left.is_none_or(|entry| entry.deletion), "the eviction did what it says");
    assert!(world.server.view().applied() > Revision(2));
}

/// The expected answers are those of a live v1.35.0 server.
#[tokio::test(start_paused = true)]
async fn a_token_request_comes_back_with_its_owners_in_its_own_version() {
    let world = World::new(Refuses::Never).await;
    let accounts = resource("", "v1", "serviceaccounts").unwrap();
    let mut account = Obj::new(accounts.ty);
    name(&mut account, accounts);
    account.set_at(&["metadata", "uid"], "u");
    world.store(account, accounts).await;
    let own = accounts.subresource("token").unwrap().ty.unwrap();
    for (spec, fields) in [
        (
            r#"{"audiences":["a"],"expirationSeconds":3600}"#,
            r#"{"f:spec":{"f:audiences":{},"f:expirationSeconds":{}}}"#,
        ),
        ("{}", r#"{"f:spec":{"f:expirationSeconds":{}}}"#),
    ] {
        let body = oarlock_registry::index::decode(format!(r#"{{"spec":{spec}}}"#).as_bytes(), own).unwrap();
        let call = Call::Create(body, WriteOptions::default());
        let reply =
            Dispatch::new(&world.server, &caller()).execute(&target(accounts, "token", "a"), call).await.unwrap();
        let oarlock_client::Reply::Object { object, created: true } = reply else { panic!("{reply:?}") };
        let answer = oarlock_codec::json::encode(&object.obj().unwrap()).bytes;
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        let fields: serde_json::Value = serde_json::from_str(fields).unwrap();
        let expected = serde_json::json!([{
            "apiVersion": "authentication.k8s.io/v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
            "manager": "test", "operation": "Update", "subresource": "token", "time": "2026-01-01T00:00:00Z",
        }]);
        assert_eq!(answer["metadata"]["managedFields"], expected);
        assert_eq!((&answer["metadata"]["name"], &answer["metadata"]["uid"]), (&"a".into(), &"u".into()));
        assert!(answer["status"]["token"].as_str().is_some_and(|token| token.matches('.').count() == 2));
    }
}

/// Upstream 1.35 copies every label and annotation of a Binding (`setPodNodeAndMetadata`), although only those of the node's topology are meant.
#[tokio::test(start_paused = true)]
async fn labels_and_annotations_of_a_binding_override_those_of_its_pod() {
    let world = World::new(Refuses::Never).await;
    let pods = resource("", "v1", "pods").unwrap();
    let json = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","labels":{"zone":"own","app":"a"},"annotations":{"x":"own"}},
        "spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let mut pod = oarlock_registry::index::decode(json.as_bytes(), pods.ty).unwrap();
    oarlock_apis::default(&mut pod);
    world.store(pod, pods).await;
    let mut binding = body(pods.subresource("binding").unwrap().ty.unwrap());
    binding.set_at(&["metadata", "labels", "zone"], "bound");
    binding.set_at(&["metadata", "annotations", "x"], "bound");
    let call = Call::Create(binding, WriteOptions::default());
    assert_eq!(world.call(&target(pods, "binding", "a"), call).await.1, None);
    let bound = world.served(&target(pods, "", "a"));
    for (path, value) in [
        (["metadata", "labels", "zone"].as_slice(), "bound"),
        (&["metadata", "labels", "app"], "a"),
        (&["metadata", "annotations", "x"], "bound"),
        (&["spec", "nodeName"], "node"),
    ] {
        assert_eq!(bound.at(path).and_then(oarlock_schema::Value::as_str), Some(value), "{path:?}");
    }
}

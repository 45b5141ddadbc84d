//! Tests of the conversion of calls to HTTP requests.

use std::time::Duration;

use oarlock_meta::{FieldSelector, LabelSelector, Revision};
use oarlock_schema::resource;

use super::*;
use crate::options::{PatchType, Propagation, VersionMatch};

fn request(group: &str, version: &str, plural: &str, (namespace, name): (&str, &str), call: Call) -> Request {
    Request {
        resource: resource(group, version, plural).unwrap(),
        subresource: "",
        namespace: namespace.into(),
        name: name.into(),
        call,
        fence: None,
        timeout: Duration::from_millis(2500),
    }
}

#[test]
fn paths_follow_group_scope_and_name() {
    let get = || Call::Get(crate::GetOptions::default());
    let uri = |request: &Request| call(request).unwrap().uri;
    assert_eq!(uri(&request("", "v1", "pods", ("d", "p"), get())), "/api/v1/namespaces/d/pods/p?timeout=3s");
    assert_eq!(
        uri(&request("rbac.authorization.k8s.io", "v1", "clusterroles", ("ignored", "system:node/x %"), get())),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node%2Fx%20%25?timeout=3s"
    );
    let status = Request { subresource: "status", ..request("", "v1", "pods", ("d", "p"), get()) };
    assert_eq!(uri(&status), "/api/v1/namespaces/d/pods/p/status?timeout=3s");
}

#[test]
fn a_list_says_what_it_wants() {
    let options = ListOptions {
        label_selector: LabelSelector::parse("a=b,c in (d, e)").unwrap(),
        field_selector: FieldSelector::equal("metadata.name", "x y"),
        resource_version: Some(Revision(0)),
        version_match: Some(VersionMatch::NotOlderThan),
        limit: 5,
        continue_token: "t=".into(),
        ..ListOptions::default()
    };
    let composed = call(&request("", "v1", "pods", ("", ""), Call::List(options))).unwrap();
    assert_eq!(
        composed.uri,
        "/api/v1/pods?labelSelector=a%3Db%2Cc%20in%20%28d%2Ce%29&fieldSelector=metadata.name%3Dx%20y&resourceVersion=0\
         &resourceVersionMatch=NotOlderThan&limit=5&continue=t%3D&timeout=3s"
    );
}

#[test]
fn a_watch_has_no_request_timeout_but_its_own() {
    let options = ListOptions {
        send_initial_events: Some(true),
        allow_bookmarks: true,
        timeout: Some(Duration::from_millis(61_900)),
        ..ListOptions::default()
    };
    let composed = watch(resource("", "v1", "nodes").unwrap(), "d", &options).unwrap();
    assert_eq!(
        composed.uri,
        "/api/v1/nodes?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&timeoutSeconds=61"
    );
}

#[test]
fn patches_and_deletes_carry_their_options() {
    let options = WriteOptions { dry_run: true, field_manager: "m".into(), force: true, ..WriteOptions::default() };
    let patch = call(&request("", "v1", "pods", ("d", "p"), Call::Patch(PatchType::Apply, Bytes::from("{}"), options)));
    let patch = patch.unwrap();
    assert!(patch.uri.ends_with("/p?dryRun=All&fieldManager=m&force=true&timeout=3s"), "{}", patch.uri);
    let media = patch.headers.iter().find(|(name, _)| name == http::header::CONTENT_TYPE).unwrap();
    assert_eq!(media.1, "application/apply-patch+yaml");
    let options = DeleteOptions { resource_version: Some(Revision(9)), dry_run: true, ..DeleteOptions::uid("u") };
    let options = options.grace(0).propagate(Propagation::Foreground);
    let delete = call(&request("", "v1", "pods", ("d", "p"), Call::Delete(options))).unwrap();
    assert_eq!(
        delete.body,
        r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"u","resourceVersion":"9"},"propagationPolicy":"Foreground","dryRun":["All"]}"#
    );
}

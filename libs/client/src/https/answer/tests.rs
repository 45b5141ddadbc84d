//! Tests of the conversion of HTTP answers to replies.

use oarlock_meta::Revision;
use oarlock_schema::resource;

use super::*;

#[test]
fn items_of_a_list_share_its_bytes_and_know_their_kind() {
    let bytes = Bytes::from_static(
        br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"12","continue":"c","remainingItemCount":3},"items":[{"metadata":{"name":"a","resourceVersion":"5"}}]}"#,
    );
    let ty = resource("", "v1", "pods").unwrap().ty;
    let list = list(ty, &bytes).unwrap();
    assert_eq!((list.revision, list.continue_token.as_str(), list.remaining), (Revision(12), "c", Some(3)));
    let item = &list.items[0];
    assert!(bytes.as_ptr_range().contains(&item.bytes.as_ptr()));
    assert_eq!((item.revision, item.obj().unwrap().kind().to_owned()), (Revision(5), "Pod".to_owned()));
}

#[test]
fn a_list_without_items_is_empty_and_another_kind_is_refused() {
    let ty = resource("", "v1", "pods").unwrap().ty;
    let none = br#"{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":null}"#;
    assert!(list(ty, &Bytes::from_static(none)).unwrap().items.is_empty());
    assert!(list(ty, &Bytes::from_static(br#"{"kind":"Pod","metadata":{}}"#)).is_err());
}

#[test]
fn a_failure_keeps_the_servers_status_and_takes_the_header() {
    let body = Bytes::from_static(
        br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"slow down","reason":"TooManyRequests","code":429}"#,
    );
    let pods = GroupResource::new("", "pods");
    let status = failure(StatusCode::TOO_MANY_REQUESTS, &body, Some(4), ("GET", &pods, "p"));
    assert!(status.is_too_many_requests());
    assert_eq!((status.message.as_str(), status.retry_after()), ("slow down", Some(4)));
    let page = failure(StatusCode::BAD_GATEWAY, &Bytes::from_static(b"oops"), None, ("GET", &pods, "p"));
    assert!(page.is_internal_error() && page.message.contains("oops"), "{page:?}");
}

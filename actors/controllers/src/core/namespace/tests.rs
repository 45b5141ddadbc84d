//! Table tests of the conditions of a namespace.

use oarlock_meta::{Status, Time};

use super::plan::{Remaining, conditions};
use crate::project::condition;

const NOW: Time = Time::from_unix(100);

#[test]
fn an_empty_namespace_has_five_good_conditions() {
    let all = conditions(&[], &[], NOW);
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|one| one.status == "False"), "{all:?}");
    assert_eq!(conditions(&all, &[], Time::from_unix(200)), all, "and they stay as they are");
}

#[test]
fn what_is_left_its_finalizers_and_failures_are_told() {
    let pods = Remaining {
        resource: "pods.".into(),
        count: 2,
        finalizers: vec!["a/b".into(), "a/b".into(), "c/d".into()],
        error: None,
    };
    let maps =
        Remaining { resource: "configmaps.".into(), error: Some(Status::internal_error("no")), ..Remaining::default() };
    let all = conditions(&[], &[pods, maps], NOW);
    let message = |kind: &str| condition(&all, kind).unwrap().message.to_string();
    assert_eq!(message("NamespaceContentRemaining"), "Some resources are remaining: pods. has 2 resource instances");
    assert_eq!(
        message("NamespaceFinalizersRemaining"),
        "Some content in the namespace has finalizers remaining: a/b in 2 resource instances, c/d in 1 resource instances"
    );
    assert!(
        message("NamespaceDeletionContentFailure")
            .starts_with("Failed to delete all resource types, 1 remaining: configmaps.: ")
    );
    let after = conditions(&all, &[], Time::from_unix(200));
    let remaining = condition(&after, "NamespaceContentRemaining").unwrap();
    assert_eq!((remaining.status.as_str(), remaining.transition), ("False", Some(Time::from_unix(200))));
}

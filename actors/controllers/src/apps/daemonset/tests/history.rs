//! Changes of revisions.

use std::sync::Arc;

use oarlock_informer::{Change, Item, Key, ObjMeta, OwnerRef};
use oarlock_meta::Uid;

use super::super::history::{Cached, enqueue_owner};
use crate::project::ControllerRevision;

fn revision(kind: &str, owner: &str) -> Option<Cached> {
    let reference = OwnerRef {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        name: owner.into(),
        uid: Uid::from(owner),
        controller: true,
        block_deletion: true,
    };
    let owners = if owner.is_empty() { Box::default() } else { Box::new([reference]) as Box<[OwnerRef]> };
    let meta = ObjMeta { key: Key::new("ns", "log-5d"), owners, ..ObjMeta::default() };
    Some(Arc::new(Item { meta, value: ControllerRevision::default() }))
}

#[test]
fn a_revision_that_is_changed_or_deleted_concerns_its_sets_and_a_new_one_does_not() {
    for (old, new, expected) in [
        (revision("DaemonSet", "log"), revision("DaemonSet", "log"), "log log"),
        (revision("DaemonSet", "log"), None, "log"),
        (revision("DaemonSet", "log"), revision("DaemonSet", "other"), "log other"),
        (revision("", ""), revision("DaemonSet", "log"), "log"),
        (revision("StatefulSet", "log"), None, ""),
        (None, revision("DaemonSet", "log"), ""),
    ] {
        let (mut keys, change) = (Vec::new(), Change { key: Key::new("ns", "log-5d"), old, new });
        enqueue_owner(&change, &mut |key: Key| keys.push(key.name.to_string()));
        assert_eq!(keys.join(" "), expected, "{change:?}");
    }
}

use std::time::Duration;

use oarlock_cloud::wire::Instance;
use oarlock_informer::{Item, ObjMeta};
use oarlock_meta::Time;

use super::plan::*;
use crate::cloud::node::UNINITIALIZED;
use crate::project::{CloudNode, Taint};

fn node(ready: bool, taints: &[&str], provider_id: &str) -> Item<CloudNode> {
    let taint = |key: &&str| Taint { key: (*key).into(), value: "".into(), effect: "NoSchedule".into(), added: None };
    let taints = taints.iter().map(taint).collect();
    let value = CloudNode { provider_id: provider_id.into(), ready, taints, addresses: Vec::new() };
    Item { meta: ObjMeta { created: Some(Time::from_unix(1000)), ..ObjMeta::default() }, value }
}

#[test]
fn the_cloud_is_asked_about_nodes_that_are_not_ready_but_new_ones_have_a_minute() {
    let at = |node: &Item<CloudNode>, now| step(node, Time::from_unix(now));
    assert_eq!(at(&node(true, &[], "x://1"), 1000), Step::Nothing);
    assert_eq!(at(&node(true, &[SHUTDOWN], "x://1"), 1000), Step::Untaint);
    assert_eq!(at(&node(false, &[], "x://1"), 1000), Step::Ask);
    let new = node(false, &[UNINITIALIZED], "");
    assert_eq!(at(&new, 1059), Step::Wait(Duration::from_secs(1)));
    assert_eq!(at(&new, 1060), Step::Ask);
    assert_eq!(at(&node(false, &[UNINITIALIZED], "x://1"), 1000), Step::Ask);
}

#[test]
fn gone_means_deleted_and_shut_down_means_tainted_once() {
    let (running, off) = (Instance::default(), Instance { shutdown: true, ..Instance::default() });
    let plain = node(false, &[], "x://1").value;
    assert_eq!(verdict(&plain, None), Verdict::Delete);
    assert_eq!(verdict(&plain, Some(&running)), Verdict::Wait);
    assert_eq!(verdict(&plain, Some(&off)), Verdict::Taint);
    assert_eq!(verdict(&node(false, &[SHUTDOWN], "x://1").value, Some(&off)), Verdict::Wait);
}

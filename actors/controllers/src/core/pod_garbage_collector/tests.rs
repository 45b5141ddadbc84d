//! Tests of the threshold of ended pods.

use std::sync::Arc;

use oarlock_informer::{Item, Key, ObjMeta};
use oarlock_meta::Time;

use super::plan::surplus;
use super::settings::PodGarbageCollectorSettings;
use crate::project::PodView;

#[test]
fn the_oldest_beyond_the_threshold_go() {
    let pod = |at: i64| {
        let meta =
            ObjMeta { key: Key::new("ns", format!("p{at}")), created: Some(Time::from_unix(at)), ..ObjMeta::default() };
        Arc::new(Item { meta, value: PodView::default() })
    };
    let names = |threshold| {
        let gone = surplus([5, 1, 4, 2, 3].map(pod).to_vec(), threshold);
        gone.iter().map(|pod| pod.meta.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(3), ["p1", "p2"]);
    assert!(names(5).is_empty() && names(9).is_empty());
}

#[test]
fn a_threshold_of_nothing_keeps_all() {
    let threshold = |pods| PodGarbageCollectorSettings { terminated_pod_gc_threshold: pods }.threshold();
    assert_eq!([threshold(3), threshold(0), threshold(-1)], [Some(3), None, None]);
}

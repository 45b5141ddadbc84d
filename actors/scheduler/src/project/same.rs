//! Compares the states of pods, field by field.

use crate::model::PodInfo;

/// Whether two states of a pod differ in nothing but their revision and generation.
pub(super) fn same(old: &PodInfo, new: &PodInfo) -> bool {
    old.node == new.node && old.uid == new.uid && old.name == new.name && same_but_names(old, new)
}

/// Whether nothing differs but uid, name, node, revision and generation.
pub(super) fn same_but_names(a: &PodInfo, b: &PodInfo) -> bool {
    let PodInfo {
        uid: _,
        name: _,
        spec,
        priority,
        gates,
        node: _,
        nominated,
        terminating,
        preempted,
        started,
        never_preempts,
        scheduler,
        version: _,
        generation: _,
    } = a;
    *spec == b.spec
        && *priority == b.priority
        && *gates == b.gates
        && *nominated == b.nominated
        && *terminating == b.terminating
        && *preempted == b.preempted
        && *started == b.started
        && *never_preempts == b.never_preempts
        && *scheduler == b.scheduler
}

//! Printers of workloads.

use oarlock_schema::Value;
use oarlock_schema::views::apps_v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};

use super::text::{NONE, containers, labels, selector, selector_text};
use super::{Now, cells};

type Cells = Vec<Value>;

pub(super) fn deployment(obj: Deployment<'_>, now: Now) -> Cells {
    let (meta, spec, status) = (obj.metadata(), obj.spec(), obj.status());
    let (names, images) = containers(spec.template().spec().containers());
    cells![
        meta.name(),
        format!("{}/{}", status.ready_replicas(), spec.replicas().unwrap_or(0)),
        status.updated_replicas(),
        status.available_replicas(),
        now.since(meta.creation_timestamp()),
        names,
        images,
        selector_text(spec.selector()).unwrap_or_else(|| "<invalid>".to_owned()),
    ]
}

pub(super) fn replica_set(obj: ReplicaSet<'_>, now: Now) -> Cells {
    let (meta, spec, status) = (obj.metadata(), obj.spec(), obj.status());
    let (names, images) = containers(spec.template().spec().containers());
    cells![
        meta.name(),
        spec.replicas().unwrap_or(0),
        status.replicas(),
        status.ready_replicas(),
        now.since(meta.creation_timestamp()),
        names,
        images,
        selector(spec.selector()),
    ]
}

pub(super) fn daemon_set(obj: DaemonSet<'_>, now: Now) -> Cells {
    let (meta, spec, status) = (obj.metadata(), obj.spec(), obj.status());
    let pod = spec.template().spec();
    let (names, images) = containers(pod.containers());
    cells![
        meta.name(),
        status.desired_number_scheduled(),
        status.current_number_scheduled(),
        status.number_ready(),
        status.updated_number_scheduled(),
        status.number_available(),
        labels(pod.node_selector()),
        now.since(meta.creation_timestamp()),
        names,
        images,
        selector(spec.selector()),
    ]
}

pub(super) fn stateful_set(obj: StatefulSet<'_>, now: Now) -> Cells {
    let (meta, spec, status) = (obj.metadata(), obj.spec(), obj.status());
    let (names, images) = containers(spec.template().spec().containers());
    let ready = format!("{}/{}", status.ready_replicas(), spec.replicas().unwrap_or(0));
    cells![meta.name(), ready, now.since(meta.creation_timestamp()), names, images]
}

pub(super) fn controller_revision(obj: ControllerRevision<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    let owner = meta.owner_references().iter().find(|owner| owner.controller() == Some(true));
    let owner = owner.map_or_else(
        || NONE.to_owned(),
        |owner| match (owner.kind(), owner.api_version().split_once('/')) {
            (kind, Some((group, _))) if !group.is_empty() => {
                format!("{}/{}", format!("{kind}.{group}").to_lowercase(), owner.name())
            }
            ("", _) => owner.name().to_owned(),
            (kind, _) => format!("{}/{}", kind.to_lowercase(), owner.name()),
        },
    );
    cells![meta.name(), owner, obj.revision(), now.since(meta.creation_timestamp())]
}

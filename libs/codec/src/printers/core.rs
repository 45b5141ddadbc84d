//! Printers of small kinds of the core group.

use oarlock_schema::Value;
use oarlock_schema::views::List;
use oarlock_schema::views::core_v1::{
    ComponentStatus, ConfigMap, Namespace, PodTemplate, ReplicationController, ResourceQuota, Secret,
};

use super::text::{containers, labels};
use super::{Now, cells};

type Cells = Vec<Value>;

pub(super) fn component_status(obj: ComponentStatus<'_>, _: Now) -> Cells {
    let (status, message, error) = match obj.conditions().iter().find(|c| c.type_() == "Healthy") {
        Some(c) => (if c.status() == "True" { "Healthy" } else { "Unhealthy" }, c.message(), c.error()),
        None => ("Unknown", "", ""),
    };
    cells![obj.metadata().name(), status, message, error]
}

pub(super) fn config_map(obj: ConfigMap<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    let count = i64::try_from(obj.data().len() + obj.binary_data().len()).unwrap_or(i64::MAX);
    cells![meta.name(), count, now.since(meta.creation_timestamp())]
}

pub(super) fn secret(obj: Secret<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    let count = i64::try_from(obj.data().len()).unwrap_or(i64::MAX);
    cells![meta.name(), obj.type_(), count, now.since(meta.creation_timestamp())]
}

pub(super) fn namespace(obj: Namespace<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    cells![meta.name(), obj.status().phase(), now.since(meta.creation_timestamp())]
}

pub(super) fn pod_template(obj: PodTemplate<'_>, _: Now) -> Cells {
    let (names, images) = containers(obj.template().spec().containers());
    cells![obj.metadata().name(), names, images, labels(obj.template().metadata().labels())]
}

pub(super) fn replication_controller(obj: ReplicationController<'_>, now: Now) -> Cells {
    let (meta, spec, status) = (obj.metadata(), obj.spec(), obj.status());
    let (names, images) = containers(spec.template().map_or_else(empty, |t| t.spec().containers()));
    cells![
        meta.name(),
        spec.replicas().unwrap_or(0),
        status.replicas(),
        status.ready_replicas(),
        now.since(meta.creation_timestamp()),
        names,
        images,
        labels(spec.selector()),
    ]
}

fn empty<'a, T: oarlock_schema::views::FromValue<'a>>() -> List<'a, T> {
    oarlock_schema::views::FromValue::absent()
}

/// Returns the cells of a quota: requests and limits separately, each as `name: used/hard`.
pub(super) fn resource_quota(obj: ResourceQuota<'_>, now: Now) -> Cells {
    let (meta, status) = (obj.metadata(), obj.status());
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in status.hard().iter() {
        let text = format!("{name}: {}/{hard}", status.used().get(name).unwrap_or("0"));
        if name.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
    }
    cells![meta.name(), requests.join(", "), limits.join(", "), now.since(meta.creation_timestamp())]
}

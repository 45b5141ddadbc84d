//! Printers of storage classes, drivers and attachments.

use oarlock_schema::Value;
use oarlock_schema::views::storage_v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment, VolumeAttributesClass};

use super::text::{NONE, UNSET, join, or};
use super::{Now, cells};

type Cells = Vec<Value>;

pub(super) fn class(obj: StorageClass<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    const DEFAULT: [&str; 2] =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let default = DEFAULT.iter().any(|key| meta.annotations().get(key) == Some("true"));
    cells![
        format!("{}{}", meta.name(), if default { " (default)" } else { "" }),
        obj.provisioner(),
        obj.reclaim_policy().unwrap_or("Delete"),
        obj.volume_binding_mode().unwrap_or("Immediate"),
        obj.allow_volume_expansion().unwrap_or(false),
        now.since(meta.creation_timestamp()),
    ]
}

pub(super) fn driver(obj: CSIDriver<'_>, now: Now) -> Cells {
    let (meta, spec) = (obj.metadata(), obj.spec());
    let modes = join(spec.volume_lifecycle_modes().iter(), ",");
    let tokens = spec.token_requests();
    let audiences = if tokens.is_empty() { UNSET.to_owned() } else { join(tokens.iter().map(|t| t.audience()), ",") };
    cells![
        meta.name(),
        spec.attach_required().unwrap_or(true),
        spec.pod_info_on_mount().unwrap_or(false),
        spec.storage_capacity().unwrap_or(false),
        audiences,
        spec.requires_republish().unwrap_or(false),
        or(&modes, NONE),
        now.since(meta.creation_timestamp()),
    ]
}

pub(super) fn node(obj: CSINode<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    let drivers = i64::try_from(obj.spec().drivers().len()).unwrap_or(i64::MAX);
    cells![meta.name(), drivers, now.since(meta.creation_timestamp())]
}

pub(super) fn attachment(obj: VolumeAttachment<'_>, now: Now) -> Cells {
    let (meta, spec) = (obj.metadata(), obj.spec());
    cells![
        meta.name(),
        spec.attacher(),
        spec.source().persistent_volume_name().unwrap_or(""),
        spec.node_name(),
        obj.status().attached(),
        now.since(meta.creation_timestamp()),
    ]
}

pub(super) fn attributes_class(obj: VolumeAttributesClass<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    cells![meta.name(), obj.driver_name(), now.since(meta.creation_timestamp())]
}

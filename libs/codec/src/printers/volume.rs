//! Printers of persistent volumes and claims.

use oarlock_schema::Value;
use oarlock_schema::views::List;
use oarlock_schema::views::core_v1::{PersistentVolume, PersistentVolumeClaim};
use oarlock_schema::views::meta_v1::ObjectMeta;

use super::text::{UNSET, join};
use super::{Now, cells};

/// The annotation that named the storage class before the field existed.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn volume(obj: PersistentVolume<'_>, now: Now) -> Vec<Value> {
    let (meta, spec, status) = (obj.metadata(), obj.spec(), obj.status());
    let claim = spec.claim_ref().map(|claim| format!("{}/{}", claim.namespace(), claim.name()));
    cells![
        meta.name(),
        spec.capacity().get("storage").unwrap_or("0"),
        modes(spec.access_modes()),
        spec.persistent_volume_reclaim_policy(),
        phase(meta, status.phase()),
        claim.unwrap_or_default(),
        meta.annotations().get(CLASS_ANNOTATION).unwrap_or(spec.storage_class_name()),
        spec.volume_attributes_class_name().unwrap_or(UNSET),
        status.reason(),
        now.since(meta.creation_timestamp()),
        spec.volume_mode().unwrap_or(UNSET),
    ]
}

pub(super) fn claim(obj: PersistentVolumeClaim<'_>, now: Now) -> Vec<Value> {
    let (meta, spec, status) = (obj.metadata(), obj.spec(), obj.status());
    let bound = !spec.volume_name().is_empty();
    let class = meta.annotations().get(CLASS_ANNOTATION).or(spec.storage_class_name());
    cells![
        meta.name(),
        phase(meta, status.phase()),
        spec.volume_name(),
        if bound { status.capacity().get("storage").unwrap_or("0") } else { "" },
        if bound { modes(status.access_modes()) } else { String::new() },
        class.unwrap_or(""),
        spec.volume_attributes_class_name().unwrap_or(UNSET),
        now.since(meta.creation_timestamp()),
        spec.volume_mode().unwrap_or(UNSET),
    ]
}

fn phase<'a>(meta: ObjectMeta<'_>, phase: &'a str) -> &'a str {
    if meta.deletion_timestamp().is_some() { "Terminating" } else { phase }
}

/// Returns access modes by their short names, each once, in a fixed order.
fn modes(modes: List<'_, &str>) -> String {
    const NAMES: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    join(NAMES.iter().filter(|(mode, _)| modes.iter().any(|m| m == *mode)).map(|(_, short)| *short), ",")
}

//! The data of a ControllerRevision: the strategic merge patch that gives a workload an earlier pod template again, byte for byte as Go writes it.
//!
//! Upstream makes the data in three steps: the typed workload to JSON, the JSON to untyped maps, and the maps to JSON again. Hence all keys are sorted,
//! fields that Go always writes are present, `<`, `>` and `&` are escaped, and whole numbers are as exact as a double
//! (`pkg/controller/statefulset/stateful_set_utils.go` and `pkg/controller/daemon/update.go`, `getPatch`).

use oarlock_codec::{json, tree};
use oarlock_meta::Status;
use oarlock_patch::{PatchKind, Validation, apply_patch};
use oarlock_schema::{Map, Obj, Str, Struct, TypeRef, Value};
use oarlock_seeded_bug::seeded_bug;
use sha2::{Digest, Sha256};

use crate::safe_text;

/// The label with the hash of a StatefulSet's revision, on the revision (upstream `ControllerRevisionHashLabel`).
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// The label with the hash of a DaemonSet's revision, on the revision and on its pods (upstream `DefaultDaemonSetUniqueLabelKey`).
pub const DAEMON_HASH_LABEL: &str = "controller-revision-hash";
/// The most bytes of a workload's name in the name of its revision, so that the name is no longer than 253 bytes.
const MAX_PREFIX_BYTES: usize = 223;
/// The largest whole number up to which a double holds every whole number.
const MAX_EXACT: u64 = 1 << 53;

/// Returns the data of the revision of a pod template, which must be canonical and have its defaults.
#[must_use]
pub fn data(template: &Struct) -> Value {
    let mut template = tree::untype(template);
    through_doubles(&mut template);
    if let Value::Map(fields) = &mut template {
        fields.insert("$patch", "replace");
    }
    let spec = Map::from_iter([("template", template)]);
    Value::Map(Map::from_iter([("spec", Value::Map(spec))]))
}

/// Gives whole numbers the value that they have after they were doubles, as numbers have in Go's untyped maps.
fn through_doubles(value: &mut Value) {
    match value {
        Value::Int(number) if number.unsigned_abs() > MAX_EXACT => {
            #[expect(clippy::cast_precision_loss, reason = "the loss is the rule")]
            let double = *number as f64;
            *value = Value::Number(Str::from(double.to_string()));
        }
        Value::List(items) => items.iter_mut().for_each(through_doubles),
        Value::Map(map) => map.iter_mut().for_each(|(_, value)| through_doubles(value)),
        _ => {}
    }
}

/// Returns the bytes of a revision's data.
#[must_use]
pub fn bytes(data: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    json::encode_value(data, &mut bytes);
    bytes
}

/// Returns the ControllerRevision, of type `ty`, of a workload's pod template. It has the labels of the template beside the label `hash`, the workload's
/// annotations, and neither name nor owner.
#[must_use]
pub fn of(ty: TypeRef, workload: &Obj, hash: (&str, &str), number: i64, data: Value) -> Obj {
    let mut revision = Obj::new(ty);
    let labels = workload.at(&["spec", "template", "metadata", "labels"]).and_then(Value::as_map).cloned();
    let mut labels: Map = labels.unwrap_or_default();
    labels.insert(hash.0, hash.1);
    revision.set_at(&["metadata", "namespace"], workload.namespace());
    revision.set_at(&["metadata", "labels"], labels);
    if let Some(annotations) = workload.at(&["metadata", "annotations"]) {
        revision.set_at(&["metadata", "annotations"], annotations.clone());
    }
    revision.set_at(&["data"], data);
    revision.set_at(&["revision"], number);
    revision
}

/// Returns the workload with the pod template of a revision, without the defaults of fields that the revision lacks (upstream `ApplyRevision`).
///
/// # Errors
/// That of a patch which does not apply: data that this workload did not write.
pub fn restored(workload: &Obj, data: &Value) -> Result<Obj, Status> {
    apply_patch(PatchKind::Strategic, workload, &bytes(data), Validation::Ignore).map(|patched| patched.obj)
}

/// The bytes of a revision's data in a form that is small enough to be cached: data with equal fingerprints has equal bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    digest: [u8; 32],
    /// The 32-bit FNV-1 hash of the bytes, from which the revision's name is made.
    fnv: u32,
}

impl Fingerprint {
    /// Returns the fingerprint of a revision's data.
    #[must_use]
    pub fn of(data: &Value) -> Self {
        let bytes = bytes(data);
        Self { digest: Sha256::digest(&bytes).into(), fnv: fnv1(FNV_OFFSET, &bytes) }
    }

    /// Returns the fingerprint that the revision of a pod template has.
    #[must_use]
    pub fn of_template(template: &Struct) -> Self {
        Self::of(&data(template))
    }

    /// Returns the hash in the name of a revision; `collisions` counts the names that were in use. In the names of StatefulSets' revisions upstream has the
    /// same hash (`HashControllerRevision`). The hash of a DaemonSet's revision is read from the revision, so upstream's and ours can differ.
    #[must_use]
    pub fn hash(self, collisions: i64) -> String {
        safe_text::of_number(fnv1(self.fnv, collisions.to_string().as_bytes()))
    }
}

const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

/// Continues an FNV-1 hash: multiply first, as opposed to FNV-1a.
fn fnv1(from: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(from, |hash, byte| {
        if seeded_bug!("revision_hash_is_fnv1a") {
            return (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME);
        }
        hash.wrapping_mul(FNV_PRIME) ^ u32::from(*byte)
    })
}

/// Returns the name of the revision with this hash (upstream `ControllerRevisionName`). Names of workloads are ASCII.
#[must_use]
pub fn name(workload: &str, hash: &str) -> String {
    format!("{}-{hash}", workload.get(..MAX_PREFIX_BYTES).unwrap_or(workload))
}

//! Parses a manifest into the pod that a node runs (upstream `tryDecodeSinglePod`, `applyDefaults`).

use std::fmt::Write as _;
use std::path::Path;

use oarlock_codec::negotiate::Format;
use oarlock_codec::{Finding, Mode, body};
use oarlock_meta::{ErrorList, MicroTime};
use oarlock_schema::views::core_v1::{Pod, PodMut, TolerationMut};
use oarlock_schema::{Obj, Struct, Value, resource, type_named};
use sha2::{Digest, Sha256};

use super::{HASH, MIRROR, SEEN, SOURCE, references};

/// A valid manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// The pod, whose uid is the hash of the manifest.
    pub(crate) pod: Obj,
    /// Warnings about unknown and duplicate fields.
    pub(crate) findings: Vec<Finding>,
}

/// Why a manifest gives no pod. Only a change of the file helps, except after [`ManifestError::Schema`], which no file causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    /// The schema has no pods.
    #[error("the schema has no pods")]
    Schema,
    /// The file is no pod.
    #[error("couldn't parse as pod({0}), please check config file")]
    Unreadable(String),
    /// The pod has no name.
    #[error("invalid pod: name is needed for the pod")]
    Nameless,
    /// The API would refuse the pod.
    #[error("invalid pod: {0}")]
    Invalid(ErrorList),
    /// The pod refers to objects of this kind.
    #[error("static pods may not reference {0}")]
    Reference(&'static str),
}

/// Fields that only an API server may set.
const SYSTEM_FIELDS: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
];

/// Parses the manifest at `path` for the kubelet of `node`, at `now`.
///
/// # Errors
/// When the manifest is invalid; upstream's text.
pub(crate) fn read(bytes: &[u8], path: &Path, node: &str, now: MicroTime) -> Result<Manifest, ManifestError> {
    let pods = resource("", "v1", "pods").ok_or(ManifestError::Schema)?;
    let json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let format = if json { Format::Json } else { Format::Yaml };
    let decoded = body::decode(format, bytes, pods.ty, Mode::Strict)
        .map_err(|status| ManifestError::Unreadable(status.message.to_string()))?;
    let mut pod = decoded.value;
    oarlock_apis::default(&mut pod);
    if pod.name().is_empty() {
        return Err(ManifestError::Nameless);
    }
    identify(&mut pod, path, node, now);
    let errors = oarlock_apis::validate_create(pods, &pod);
    if !errors.is_empty() {
        return Err(ManifestError::Invalid(errors));
    }
    match references::find(&pod) {
        Some(what) => Err(ManifestError::Reference(what)),
        None => Ok(Manifest { pod, findings: decoded.findings }),
    }
}

/// Sets uid, name, node and annotations that identify the pod's node and file.
fn identify(pod: &mut Obj, path: &Path, node: &str, now: MicroTime) {
    pod.remove_name("status");
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_struct_mut) {
        for field in SYSTEM_FIELDS {
            metadata.remove_name(field);
        }
    }
    let uid = match pod.meta().uid() {
        "" => hash(pod, path, node),
        given => given.to_owned(),
    };
    let name = format!("{}-{}", pod.name(), node.to_lowercase());
    let namespace = if pod.namespace().is_empty() { "default" } else { pod.namespace() }.to_owned();
    let toleration = missing_toleration(pod);
    let mut view = PodMut::new(pod);
    let mut metadata = view.metadata_mut();
    metadata.set_uid(uid.as_str()).set_name(name).set_namespace(namespace);
    let annotations = metadata.annotations_mut();
    annotations.remove(MIRROR);
    annotations.insert(HASH, uid);
    annotations.insert(SOURCE, "file");
    annotations.insert(SEEN, now.to_string());
    view.spec_mut().set_node_name(node).tolerations_mut().extend(toleration);
    view.status_mut().set_phase("Pending");
}

/// Returns 128 bits in hexadecimal, as upstream does. The same manifest gives the same hash after a restart.
fn hash(pod: &Obj, path: &Path, node: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(oarlock_client::encode(pod));
    hasher.update(format!("host:{node}file:{}", path.display()));
    hasher.finalize().iter().take(16).fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the toleration that keeps static pods on a failing node, unless the pod has it.
fn missing_toleration(pod: &Obj) -> Option<Value> {
    let mut toleration = Struct::zero(type_named("core/v1.Toleration")?);
    TolerationMut::new(&mut toleration).set_operator("Exists").set_effect("NoExecute");
    let there = pod.view::<Pod<'_>>().is_some_and(|pod| {
        let any = |t: oarlock_schema::views::core_v1::Toleration<'_>| {
            t.key().is_empty() && t.operator() == "Exists" && t.effect() == "NoExecute" && t.value().is_empty()
        };
        pod.spec().tolerations().iter().any(any)
    });
    (!there).then_some(Value::Struct(toleration))
}

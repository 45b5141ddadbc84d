//! Plans volumes of PersistentVolumeClaims that are bound to a path or device directory of this node.

use oarlock_schema::Str;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};

use super::plan::{self, Plan};
use crate::pod_error::PodError;
use crate::references::{Kind, Reference, References};

/// PersistentVolumeClaim of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) name: Str,
    pub(super) read_only: bool,
    /// Uid of the pod that must own the claim, for claims of ephemeral volumes.
    pub(super) owner: Option<Str>,
}

/// Returns the claim of a volume, if the volume is one.
pub(super) fn of(pod: Pod<'_>, volume: Volume<'_>) -> Option<Claim> {
    if let Some(source) = volume.persistent_volume_claim() {
        return Some(Claim { name: source.claim_name().into(), read_only: source.read_only(), owner: None });
    }
    volume.ephemeral()?;
    let meta = pod.metadata();
    let name = format!("{}-{}", meta.name(), volume.name()).into();
    Some(Claim { name, read_only: false, owner: Some(meta.uid().into()) })
}

/// Returns the plan of a claim's volume; `None` when no plugin supports it.
///
/// # Errors
/// When the claim cannot be used; upstream's text.
pub(super) async fn plan(claim: &Claim, namespace: &str, references: &References) -> Result<Option<Plan>, PodError> {
    let processing =
        |why: PodError| why.within(|why| format!("error processing PVC {namespace}/{}: {why}", claim.name));
    let not_ready = |why: String| processing(PodError::NotReady(why));
    let wanted = Reference { kind: Kind::Claim, name: claim.name.clone() };
    let found = references.fresh(namespace, &wanted).await;
    let object = found.map_err(|status| not_ready(format!("failed to fetch PVC from API server: {status}")))?;
    let (volume, uid) = bound(claim, &object).map_err(processing)?;
    let wanted = Reference { kind: Kind::Volume, name: volume.clone() };
    let found = references.fresh("", &wanted).await;
    let object = found.map_err(|status| not_ready(format!("failed to fetch PV {volume} from API server: {status}")))?;
    let object = PersistentVolume::of(&object).unwrap_or_else(|| PersistentVolume::from_option(None));
    let spec = object.spec();
    let Some(owner) = spec.claim_ref() else {
        let why = "but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim";
        return Err(not_ready(format!("found PV object {volume} {why}")));
    };
    if owner.uid() != uid {
        let why = format!("but its pv.Spec.ClaimRef.UID {} does not point to claim.UID {uid}", owner.uid());
        return Err(not_ready(format!("found PV object {volume} {why}")));
    }
    if spec.volume_mode() == Some("Block") {
        return Err(PodError::Invalid(format!(
            "volume {volume} has volumeMode Block, which this kubelet does not support"
        )));
    }
    if let Some(source) = spec.host_path() {
        return plan::host_path(volume, source).map(Some);
    }
    let Some(source) = spec.local() else { return Ok(None) };
    if source.path().is_empty() {
        return Err(PodError::Invalid(format!("LocalVolume volume \"{volume}\" path is empty")));
    }
    if source.path().split('/').any(|part| part == "..") {
        return Err(PodError::Invalid(format!("invalid path: {} must not contain '..'", source.path())));
    }
    Ok(Some(Plan::Local { path: source.path().into(), name: volume, read_only: claim.read_only }))
}

/// Returns the name of the PersistentVolume to which a claim is bound, and the claim's uid.
fn bound(claim: &Claim, object: &oarlock_schema::Obj) -> Result<(Str, String), PodError> {
    let found = PersistentVolumeClaim::of(object).unwrap_or_else(|| PersistentVolumeClaim::from_option(None));
    let meta = found.metadata();
    if let Some(pod) = &claim.owner
        && !meta.owner_references().iter().any(|owner| owner.controller() == Some(true) && owner.uid() == *pod)
    {
        return Err(PodError::NotReady("PVC was not created for the pod (the pod is not owner)".to_owned()));
    }
    if meta.deletion_timestamp().is_some()
        && !meta.finalizers().iter().any(|name| name == "kubernetes.io/pvc-protection")
    {
        return Err(PodError::NotReady("PVC is being deleted".to_owned()));
    }
    if found.status().phase() != "Bound" {
        return Err(PodError::NotReady("PVC is not bound".to_owned()));
    }
    match found.spec().volume_name() {
        "" => Err(PodError::NotReady("PVC has empty pvc.Spec.VolumeName".to_owned())),
        volume => Ok((volume.into(), meta.uid().to_owned())),
    }
}

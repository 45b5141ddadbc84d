//! The objects that pods and volumes refer to (upstream: `pkg/api/v1/pod` and `pkg/api/v1/persistentvolume`, the Secret and ConfigMap visitors).

use compact_str::CompactString;
use oarlock_schema::views::core_v1::{self, EnvFromSource, EnvVar, SecretReference, Volume};
use oarlock_schema::views::{List, View as _};

use crate::authorizers::node::{ObjectName, PodRefs};

/// The annotation of mirror pods, with which a kubelet shows its static pods in the API.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Returns the references of a pod that its kubelet must be able to read.
#[must_use]
pub fn pod_refs(pod: core_v1::Pod<'_>) -> PodRefs {
    let (metadata, spec, status) = (pod.metadata(), pod.spec(), pod.status());
    let mut refs = PodRefs {
        namespace: metadata.namespace().into(),
        name: metadata.name().into(),
        node: spec.node_name().into(),
        mirror: metadata.annotations().get(MIRROR).is_some(),
        service_account: spec.service_account_name().into(),
        ..PodRefs::default()
    };
    // No kubelet reads for an unbound pod, and the references of a mirror pod are ignored.
    if refs.node.is_empty() || refs.mirror {
        return refs;
    }
    refs.secrets.extend(spec.image_pull_secrets().iter().map(|secret| CompactString::from(secret.name())));
    for container in spec.init_containers().iter().chain(spec.containers().iter()) {
        environment(&mut refs, container.env_from(), container.env());
    }
    for container in spec.ephemeral_containers().iter() {
        environment(&mut refs, container.env_from(), container.env());
    }
    for volume in spec.volumes().iter() {
        pod_volume(&mut refs, volume);
    }
    for claim in spec.resource_claims().iter() {
        let made = || status.resource_claim_statuses().iter().find(|s| s.name() == claim.name())?.resource_claim_name();
        refs.resource_claims.extend(claim.resource_claim_name().or_else(made).map(CompactString::from));
    }
    if let Some(extended) = status.extended_resource_claim_status() {
        refs.resource_claims.push(extended.resource_claim_name().into());
    }
    refs
}

fn environment(refs: &mut PodRefs, from: List<'_, EnvFromSource<'_>>, variables: List<'_, EnvVar<'_>>) {
    for source in from.iter() {
        refs.secrets.extend(source.secret_ref().map(|r| CompactString::from(r.name())));
        refs.config_maps.extend(source.config_map_ref().map(|r| CompactString::from(r.name())));
    }
    for source in variables.iter().filter_map(|variable| variable.value_from()) {
        refs.secrets.extend(source.secret_key_ref().map(|r| CompactString::from(r.name())));
        refs.config_maps.extend(source.config_map_key_ref().map(|r| CompactString::from(r.name())));
    }
}

fn pod_volume(refs: &mut PodRefs, volume: Volume<'_>) {
    let local = |reference: core_v1::LocalObjectReference<'_>| CompactString::from(reference.name());
    // A volume has exactly one source, so the order of these checks does not matter.
    refs.secrets.extend(volume.secret().map(|s| CompactString::from(s.secret_name())));
    refs.secrets.extend(volume.azure_file().map(|s| CompactString::from(s.secret_name())));
    refs.secrets.extend(volume.cephfs().and_then(|s| s.secret_ref()).map(local));
    refs.secrets.extend(volume.cinder().and_then(|s| s.secret_ref()).map(local));
    refs.secrets.extend(volume.flex_volume().and_then(|s| s.secret_ref()).map(local));
    refs.secrets.extend(volume.rbd().and_then(|s| s.secret_ref()).map(local));
    refs.secrets.extend(volume.scale_io().and_then(|s| s.secret_ref()).map(local));
    refs.secrets.extend(volume.iscsi().and_then(|s| s.secret_ref()).map(local));
    refs.secrets.extend(volume.storageos().and_then(|s| s.secret_ref()).map(local));
    refs.secrets.extend(volume.csi().and_then(|s| s.node_publish_secret_ref()).map(local));
    refs.config_maps.extend(volume.config_map().map(|c| CompactString::from(c.name())));
    for source in volume.projected().into_iter().flat_map(|projected| projected.sources().values()) {
        let Some(source) = source.as_struct().map(core_v1::VolumeProjection::new) else { continue };
        refs.secrets.extend(source.secret().map(|s| CompactString::from(s.name())));
        refs.config_maps.extend(source.config_map().map(|c| CompactString::from(c.name())));
    }
    if let Some(claim) = volume.persistent_volume_claim() {
        refs.claims.push(claim.claim_name().into());
    } else if volume.ephemeral().is_some() {
        refs.claims.push(format!("{}-{}", refs.name, volume.name()).into());
    }
}

/// Returns the claim a volume is bound to, and the Secrets a kubelet needs to mount it.
#[must_use]
pub fn volume_refs(volume: core_v1::PersistentVolume<'_>) -> (Option<ObjectName>, Vec<ObjectName>) {
    let spec = volume.spec();
    let Some(claim) = spec.claim_ref() else {
        return (None, Vec::new());
    };
    // In older objects the Secret's namespace is the claim's.
    let of_claim = |r: SecretReference<'_>| {
        let namespace = if r.namespace().is_empty() { claim.namespace() } else { r.namespace() };
        (namespace.to_owned(), r.name().to_owned())
    };
    let own = |r: SecretReference<'_>| (r.namespace().to_owned(), r.name().to_owned());
    let mut secrets: Vec<ObjectName> = Vec::new();
    if let Some(azure) = spec.azure_file() {
        let namespace = azure.secret_namespace().filter(|n| !n.is_empty()).unwrap_or(claim.namespace());
        secrets.push((namespace.to_owned(), azure.secret_name().to_owned()));
    }
    secrets.extend(spec.cephfs().and_then(|s| s.secret_ref()).map(of_claim));
    secrets.extend(spec.cinder().and_then(|s| s.secret_ref()).map(own));
    secrets.extend(spec.flex_volume().and_then(|s| s.secret_ref()).map(of_claim));
    secrets.extend(spec.rbd().and_then(|s| s.secret_ref()).map(of_claim));
    secrets.extend(spec.scale_io().and_then(|s| s.secret_ref()).map(of_claim));
    secrets.extend(spec.iscsi().and_then(|s| s.secret_ref()).map(of_claim));
    secrets
        .extend(spec.storageos().and_then(|s| s.secret_ref()).map(|r| (r.namespace().to_owned(), r.name().to_owned())));
    // Kubelets do not need the Secrets of the controller (publish, expand).
    if let Some(csi) = spec.csi() {
        let visible = [csi.node_publish_secret_ref(), csi.node_stage_secret_ref(), csi.node_expand_secret_ref()];
        secrets.extend(visible.into_iter().flatten().map(own));
    }
    secrets.retain(|(_, name)| !name.is_empty());
    (Some((claim.namespace().to_owned(), claim.name().to_owned())), secrets)
}

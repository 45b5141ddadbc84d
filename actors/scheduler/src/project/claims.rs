//! Projections of the claims in pods, and of claims, volumes and classes.

use std::sync::Arc;

use oarlock_informer::{Project, ResourceName};
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::{NodeSelector, PersistentVolume, PersistentVolumeClaim, Pod};
use oarlock_schema::views::meta_v1::ObjectMeta;
use oarlock_schema::views::resource_v1::ResourceClaim;
use oarlock_schema::views::storage_v1::StorageClass;
use oarlock_seeded_bug::seeded_bug;

use crate::cluster::{DeviceClaim, NodeTerms, VolumeClaim};
use crate::intern::{Interner, Sym};
use crate::model::{ClaimKind, Claimed, Uid};

use super::terms;

/// Annotation: the binding to `spec.volumeName` is complete.
const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation: the storage class, in its deprecated form.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Returns the claims that a pod names, in the pod's order: volume claims, then device claims.
pub(super) fn claimed(pod: Pod<'_>, names: &Interner) -> Option<Arc<[Claimed]>> {
    let (meta, spec) = (pod.metadata(), pod.spec());
    let this = || Some((names.intern(meta.name()), Uid::from(meta.uid())));
    let mut claims = Vec::new();
    for volume in spec.volumes().iter() {
        if let Some(claim) = volume.persistent_volume_claim() {
            claims.push(Claimed { kind: ClaimKind::Volume, name: names.intern(claim.claim_name()), pod: None });
        } else if volume.ephemeral().is_some() {
            let name = names.intern(&format!("{}-{}", meta.name(), volume.name()));
            claims.push(Claimed { kind: ClaimKind::Ephemeral, name, pod: this() });
        }
    }
    for claim in spec.resource_claims().iter() {
        if let Some(name) = claim.resource_claim_name() {
            claims.push(Claimed { kind: ClaimKind::Device, name: names.intern(name), pod: None });
            continue;
        }
        let made = pod.status().resource_claim_statuses().iter().find(|made| made.name() == claim.name());
        match made.map(|made| made.resource_claim_name()) {
            // The resource claim controller found that the pod needs no claim here.
            Some(None) => {}
            Some(Some(name)) => {
                claims.push(Claimed { kind: ClaimKind::Device, name: names.intern(name), pod: this() });
            }
            None => claims.push(Claimed { kind: ClaimKind::DeviceToCome, name: Sym::EMPTY, pod: this() }),
        }
    }
    (!claims.is_empty() && !seeded_bug!("pod_without_its_claim")).then(|| claims.into())
}

fn controller(meta: ObjectMeta<'_>) -> Option<Uid> {
    meta.owner_references().iter().find(|owner| owner.controller() == Some(true)).map(|owner| Uid::from(owner.uid()))
}

fn node_terms(selector: Option<NodeSelector<'_>>, names: &Interner) -> NodeTerms {
    selector.map(|selector| selector.node_selector_terms().iter().map(|term| terms::node_term(term, names)).collect())
}

fn symbol(text: &str, names: &Interner) -> Option<Sym> {
    (!text.is_empty()).then(|| names.intern(text))
}

/// Projection of a PersistentVolumeClaim.
#[derive(Debug, PartialEq)]
pub(crate) struct VolumeClaimView(pub(crate) VolumeClaim);

impl Project for VolumeClaimView {
    const RESOURCE: ResourceName = ResourceName::core("persistentvolumeclaims");

    fn project(obj: &Obj) -> Self {
        let names = Interner::process();
        let claim: PersistentVolumeClaim<'_> = obj.view().unwrap_or_else(|| PersistentVolumeClaim::from_option(None));
        let (meta, spec, phase) = (claim.metadata(), claim.spec(), claim.status().phase());
        let annotations = meta.annotations();
        let volume = symbol(spec.volume_name(), &names);
        let class = annotations.get(CLASS).or_else(|| spec.storage_class_name()).unwrap_or("");
        Self(VolumeClaim {
            deleting: meta.deletion_timestamp().is_some(),
            lost: phase == "Lost",
            controller: controller(meta),
            bound: volume.is_some() && (annotations.get(COMPLETED).is_some() || phase == "Bound"),
            volume,
            class: symbol(class, &names),
        })
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// Projection of a PersistentVolume: the terms of the nodes that can reach the volume.
#[derive(Debug, PartialEq)]
pub(crate) struct VolumeView(pub(crate) NodeTerms);

impl Project for VolumeView {
    const RESOURCE: ResourceName = ResourceName::core("persistentvolumes");

    fn project(obj: &Obj) -> Self {
        let volume: PersistentVolume<'_> = obj.view().unwrap_or_else(|| PersistentVolume::from_option(None));
        let required = volume.spec().node_affinity().and_then(|affinity| affinity.required());
        Self(node_terms(required, &Interner::process()))
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// Projection of a storage class: whether its claims wait for the first consumer.
#[derive(Debug, PartialEq)]
pub(crate) struct StorageClassView(pub(crate) bool);

impl Project for StorageClassView {
    const RESOURCE: ResourceName = ResourceName::new("storage.k8s.io", "v1", "storageclasses");

    fn project(obj: &Obj) -> Self {
        let class: StorageClass<'_> = obj.view().unwrap_or_else(|| StorageClass::from_option(None));
        Self(class.volume_binding_mode() == Some("WaitForFirstConsumer"))
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// Projection of a ResourceClaim.
#[derive(Debug, PartialEq)]
pub(crate) struct DeviceClaimView(pub(crate) DeviceClaim);

impl Project for DeviceClaimView {
    const RESOURCE: ResourceName = ResourceName::new("resource.k8s.io", "v1", "resourceclaims");

    fn project(obj: &Obj) -> Self {
        let names = Interner::process();
        let claim: ResourceClaim<'_> = obj.view().unwrap_or_else(|| ResourceClaim::from_option(None));
        let meta = claim.metadata();
        let mut classes = Vec::new();
        for request in claim.spec().devices().requests().iter() {
            if let Some(exactly) = request.exactly() {
                classes.push((request.name().into(), names.intern(exactly.device_class_name())));
            }
            for one in request.first_available().iter() {
                let name = format!("{}/{}", request.name(), one.name());
                classes.push((name.into(), names.intern(one.device_class_name())));
            }
        }
        let allocation = claim.status().allocation();
        Self(DeviceClaim {
            deleting: meta.deletion_timestamp().is_some(),
            controller: controller(meta),
            allocated: allocation.map(|allocation| node_terms(allocation.node_selector(), &names)),
            classes: classes.into(),
        })
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// Projection of a device class, of which only the existence counts.
#[derive(Debug, PartialEq)]
pub(crate) struct DeviceClassView;

impl Project for DeviceClassView {
    const RESOURCE: ResourceName = ResourceName::new("resource.k8s.io", "v1", "deviceclasses");

    fn project(_: &Obj) -> Self {
        Self
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

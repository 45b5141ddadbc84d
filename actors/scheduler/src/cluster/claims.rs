//! Claims of volumes and devices, with the volumes and devices that satisfy them. Controllers and drivers bind and allocate claims; a pod waits until then.
//!
//! Texts are upstream's (`volumebinding`, `volumerestrictions`, `dynamicresources`). Upstream's scheduler also binds claims whose class waits for the first
//! consumer, and allocates devices. Oarlock's scheduler does not yet: a pod with such a claim waits for another component.

use std::collections::{BTreeMap, BTreeSet};

use crate::intern::{Interner, Sym};
use crate::model::{ClaimKind, Claimed, NodeInfo, NodeTerm, PodSpec, Uid};

/// Reason of a node when a bound claim's volume does not exist.
pub(crate) const NO_VOLUME: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
pub(crate) const OTHER_NODE: &str = "node(s) didn't match PersistentVolume's node affinity";
pub(crate) const NO_MATCH: &str = "node(s) didn't find available persistent volumes to bind";
pub(crate) const NOT_ALLOCATED: &str = "cannot allocate all claims";
pub(crate) const NO_DEVICE: &str = "resourceclaim not available on the node";

/// Terms of a node selector, of which at least one must match; `None` matches every node.
pub(crate) type NodeTerms = Option<Box<[NodeTerm]>>;

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VolumeClaim {
    /// Whether the claim is being deleted.
    pub(crate) deleting: bool,
    /// Whether the claim's phase is `Lost`.
    pub(crate) lost: bool,
    /// The uid of the claim's controlling owner.
    pub(crate) controller: Option<Uid>,
    /// `spec.volumeName`.
    pub(crate) volume: Option<Sym>,
    /// Whether the binding to the volume is complete.
    pub(crate) bound: bool,
    /// The claim's storage class.
    pub(crate) class: Option<Sym>,
}

/// A ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceClaim {
    /// Whether the claim is being deleted.
    pub(crate) deleting: bool,
    /// The uid of the claim's controlling owner.
    pub(crate) controller: Option<Uid>,
    /// The terms of the nodes that reach the allocated devices; the outer `None` while no devices are allocated.
    pub(crate) allocated: Option<NodeTerms>,
    /// The claim's requests by name, with their device classes.
    pub(crate) classes: Box<[(Box<str>, Sym)]>,
}

/// Namespace and name of a claim.
type Name = (Sym, Sym);

/// All claims, volumes, classes and device classes that the scheduler knows.
#[derive(Default)]
pub(crate) struct Claims {
    volume_claims: BTreeMap<Name, VolumeClaim>,
    volumes: BTreeMap<Sym, NodeTerms>,
    /// Storage classes, with whether their `volumeBindingMode` is `WaitForFirstConsumer`.
    storage_classes: BTreeMap<Sym, bool>,
    device_claims: BTreeMap<Name, DeviceClaim>,
    device_classes: BTreeSet<Sym>,
}

fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

fn cluster_wide<'a>(names: impl Iterator<Item = &'a Sym>) -> Vec<Name> {
    names.map(|name| (Sym::EMPTY, *name)).collect()
}

impl Claims {
    /// Sets (or with `None` removes) a PersistentVolumeClaim.
    pub(crate) fn set_volume_claim(&mut self, name: Name, claim: Option<VolumeClaim>) {
        set(&mut self.volume_claims, name, claim);
    }

    /// Returns the known PersistentVolumeClaims.
    pub(crate) fn volume_claims(&self) -> Vec<Name> {
        self.volume_claims.keys().copied().collect()
    }

    /// Sets (or with `None` removes) a PersistentVolume.
    pub(crate) fn set_volume(&mut self, name: Sym, nodes: Option<NodeTerms>) {
        set(&mut self.volumes, name, nodes);
    }

    /// Returns the known PersistentVolumes.
    pub(crate) fn volumes(&self) -> Vec<Name> {
        cluster_wide(self.volumes.keys())
    }

    /// Sets (or with `None` removes) a storage class.
    pub(crate) fn set_storage_class(&mut self, name: Sym, waits: Option<bool>) {
        set(&mut self.storage_classes, name, waits);
    }

    /// Returns the known storage classes.
    pub(crate) fn storage_classes(&self) -> Vec<Name> {
        cluster_wide(self.storage_classes.keys())
    }

    /// Sets (or with `None` removes) a ResourceClaim.
    pub(crate) fn set_device_claim(&mut self, name: Name, claim: Option<DeviceClaim>) {
        set(&mut self.device_claims, name, claim);
    }

    /// Returns the known ResourceClaims.
    pub(crate) fn device_claims(&self) -> Vec<Name> {
        self.device_claims.keys().copied().collect()
    }

    /// Adds or removes a device class.
    pub(crate) fn set_device_class(&mut self, name: Sym, exists: bool) {
        if exists {
            self.device_classes.insert(name);
        } else {
            self.device_classes.remove(&name);
        }
    }

    /// Returns the known device classes.
    pub(crate) fn device_classes(&self) -> Vec<Name> {
        cluster_wide(self.device_classes.iter())
    }

    /// Returns why the pod's volume claims reject all nodes, if so.
    pub(crate) fn volumes_refuse(&self, spec: &PodSpec, names: &Interner) -> Option<String> {
        let text = |name: Sym| names.text(name);
        let missing =
            |claimed: &&Claimed| claimed.kind == ClaimKind::Volume && self.volume_claim(spec, claimed).is_none();
        if let Some(claimed) = claimed(spec, volume).find(missing) {
            return Some(format!("persistentvolumeclaim {:?} not found", text(claimed.name)));
        }
        for claimed in claimed(spec, volume) {
            let name = text(claimed.name);
            let Some(claim) = self.volume_claim(spec, claimed) else {
                let waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim";
                return Some(format!("{waiting} {name:?}"));
            };
            if claim.lost {
                let volume = claim.volume.map(text).unwrap_or_default();
                return Some(format!(
                    "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
                ));
            }
            if claim.deleting {
                return Some(format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            if let Some(pod) = not_owner(claimed, claim.controller.as_ref()) {
                let (namespace, pod) = (text(spec.namespace), text(pod));
                let why = "(pod is not owner)";
                return Some(format!("PVC {namespace}/{name} was not created for pod {namespace}/{pod} {why}"));
            }
        }
        let unbound = |claim: &VolumeClaim| !claim.bound && (claim.volume.is_some() || !self.waits(claim));
        let mut claims = claimed(spec, volume).filter_map(|claimed| self.volume_claim(spec, claimed));
        claims.any(unbound).then(|| "pod has unbound immediate PersistentVolumeClaims".to_owned())
    }

    /// Returns why the pod's volumes reject this node, if so.
    pub(crate) fn volumes_elsewhere(&self, spec: &PodSpec, node: &NodeInfo, names: &Interner) -> Option<&'static str> {
        let claims = || claimed(spec, volume).filter_map(|claimed| self.volume_claim(spec, claimed));
        let mut missing = false;
        for volume in claims().filter(|claim| claim.bound).filter_map(|claim| claim.volume) {
            match self.volumes.get(&volume) {
                Some(terms) if !admits(terms, node, names) => return Some(OTHER_NODE),
                Some(_) => {}
                None => missing = true,
            }
        }
        if claims().any(|claim| !claim.bound) {
            return Some(NO_MATCH);
        }
        missing.then_some(NO_VOLUME)
    }

    /// Returns why the pod's ResourceClaims reject all nodes, if so.
    pub(crate) fn devices_refuse(&self, spec: &PodSpec, names: &Interner) -> Option<String> {
        let text = |name: Sym| names.text(name);
        let namespace = text(spec.namespace);
        for claimed in claimed(spec, device) {
            if claimed.kind == ClaimKind::DeviceToCome {
                let pod = claimed.pod.as_ref().map(|(name, _)| text(*name)).unwrap_or_default();
                return Some(format!("pod \"{namespace}/{pod}\": ResourceClaim not created yet"));
            }
            let name = text(claimed.name);
            let Some(claim) = self.device_claim(spec, claimed) else {
                return Some(format!("could not find ResourceClaim \"{namespace}/{name}\""));
            };
            if claim.deleting {
                return Some(format!("resourceclaim {name:?} is being deleted"));
            }
            if let Some(pod) = not_owner(claimed, claim.controller.as_ref()) {
                let (pod, why) = (text(pod), "(pod is not owner)");
                return Some(format!(
                    "ResourceClaim {namespace}/{name} was not created for pod {namespace}/{pod} {why}"
                ));
            }
        }
        let claims = claimed(spec, device).filter_map(|claimed| self.device_claim(spec, claimed));
        let mut asked = claims.filter(|claim| claim.allocated.is_none()).flat_map(|claim| &claim.classes);
        let (request, class) = asked.find(|(_, class)| !self.device_classes.contains(class))?;
        Some(format!("request {request}: device class {} does not exist", text(*class)))
    }

    /// Returns why the pod's devices reject this node, if so.
    pub(crate) fn devices_elsewhere(&self, spec: &PodSpec, node: &NodeInfo, names: &Interner) -> Option<&'static str> {
        let claims = || claimed(spec, device).filter_map(|claimed| self.device_claim(spec, claimed));
        let away = |claim: &DeviceClaim| claim.allocated.as_ref().is_some_and(|nodes| !admits(nodes, node, names));
        if claims().any(away) {
            return Some(NO_DEVICE);
        }
        claims().any(|claim| claim.allocated.is_none()).then_some(NOT_ALLOCATED)
    }

    fn waits(&self, claim: &VolumeClaim) -> bool {
        claim.class.is_some_and(|class| self.storage_classes.get(&class) == Some(&true))
    }

    fn volume_claim(&self, spec: &PodSpec, claimed: &Claimed) -> Option<&VolumeClaim> {
        self.volume_claims.get(&(spec.namespace, claimed.name))
    }

    fn device_claim(&self, spec: &PodSpec, claimed: &Claimed) -> Option<&DeviceClaim> {
        self.device_claims.get(&(spec.namespace, claimed.name))
    }
}

/// Whether a kind of claim is a volume claim.
pub(crate) fn volume(kind: ClaimKind) -> bool {
    matches!(kind, ClaimKind::Volume | ClaimKind::Ephemeral)
}

/// Whether a kind of claim is a device claim.
pub(crate) fn device(kind: ClaimKind) -> bool {
    !volume(kind)
}

/// Returns the pod's claims whose kinds `is` accepts.
pub(crate) fn claimed(spec: &PodSpec, is: fn(ClaimKind) -> bool) -> impl Iterator<Item = &Claimed> {
    spec.claims.iter().flat_map(|claims| claims.iter()).filter(move |claimed| is(claimed.kind))
}

/// Returns the pod's name if the claim should be owned by the pod but has another controlling owner.
fn not_owner(claimed: &Claimed, controller: Option<&Uid>) -> Option<Sym> {
    let (name, uid) = claimed.pod.as_ref()?;
    (controller != Some(uid)).then_some(*name)
}

/// Whether a node matches one of the terms.
fn admits(terms: &NodeTerms, node: &NodeInfo, names: &Interner) -> bool {
    terms.as_ref().is_none_or(|terms| {
        terms.iter().any(|term| {
            let labelled = term.labels.iter().all(|wanted| wanted.accepts(node.labels.get(wanted.key), names));
            let named = term.fields.iter().all(|field| field.wanted == (field.name == node.name));
            !term.never && labelled && named
        })
    })
}

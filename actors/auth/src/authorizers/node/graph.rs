//! The graph of the Node authorizer: for every object that pods refer to, the nodes of those pods, with counts. A query costs one or two lookups,
//! whatever the size of the cluster; a change costs one per reference of the pod.
//!
//! node ← pod ← Secret, ConfigMap, ServiceAccount, claim, resource claim; node ← pod ← claim ← volume ← Secret;
//! node ← VolumeAttachment; node ← ResourceSlice.

use std::sync::Arc;

use compact_str::CompactString;
use hashbrown::{Equivalent, HashMap};

/// The namespace and name of an object.
pub type ObjectName = (String, String);

/// The kind of an object in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Pod,
    Secret,
    ConfigMap,
    ServiceAccount,
    Claim,
    ResourceClaim,
    Volume,
    VolumeAttachment,
    ResourceSlice,
}

/// A pod bound to a node, and the objects in its namespace that its spec and status refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodRefs {
    /// The pod's namespace.
    pub namespace: CompactString,
    /// The pod's name.
    pub name: CompactString,
    /// `spec.nodeName`; a pod without a node is related to no node.
    pub node: CompactString,
    /// Whether the pod has the annotation `kubernetes.io/config.mirror`. The references of mirror pods are ignored, because a kubelet writes these
    /// pods.
    pub mirror: bool,
    /// `spec.serviceAccountName`.
    pub service_account: CompactString,
    /// Secrets of volumes, environments and `imagePullSecrets`.
    pub secrets: Vec<CompactString>,
    /// ConfigMaps of volumes and environments.
    pub config_maps: Vec<CompactString>,
    /// PersistentVolumeClaims, including those of ephemeral volumes (`<pod>-<volume>`).
    pub claims: Vec<CompactString>,
    /// ResourceClaims; for templates, by the names in the status.
    pub resource_claims: Vec<CompactString>,
}

impl PodRefs {
    fn each(&self, mut visit: impl FnMut(Kind, &str)) {
        visit(Kind::Pod, &self.name);
        if self.mirror {
            return;
        }
        let lists = [
            (Kind::Secret, &self.secrets),
            (Kind::ConfigMap, &self.config_maps),
            (Kind::Claim, &self.claims),
            (Kind::ResourceClaim, &self.resource_claims),
        ];
        for (kind, name) in lists.iter().flat_map(|(kind, names)| names.iter().map(|n| (*kind, n))) {
            if !name.is_empty() {
                visit(kind, name);
            }
        }
        if !self.service_account.is_empty() {
            visit(Kind::ServiceAccount, &self.service_account);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    namespace: CompactString,
    name: CompactString,
}

/// A borrowed [`Key`] with the same hash.
#[derive(Hash)]
struct KeyRef<'a> {
    kind: Kind,
    namespace: &'a str,
    name: &'a str,
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.kind == key.kind && self.namespace == key.namespace && self.name == key.name
    }
}

impl KeyRef<'_> {
    fn to_key(&self) -> Key {
        Key { kind: self.kind, namespace: self.namespace.into(), name: self.name.into() }
    }
}

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

#[derive(Debug, Default)]
struct VolumeRefs {
    claim: ObjectName,
    secrets: Vec<ObjectName>,
}

/// The references from objects to nodes.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Object → node → the number of pods that refer to the object.
    nodes: Map<Key, Map<Arc<str>, u32>>,
    pods: Map<Key, PodRefs>,
    volumes: Map<String, VolumeRefs>,
    /// Secret → volumes that need it, repeated once per reference.
    volume_secrets: Map<Key, Vec<String>>,
    /// VolumeAttachment or ResourceSlice → node.
    owners: Map<Key, Arc<str>>,
}

impl Graph {
    pub(super) fn knows(&self, pod: &PodRefs) -> bool {
        self.pods.get(&KeyRef { kind: Kind::Pod, namespace: &pod.namespace, name: &pod.name }) == Some(pod)
    }

    pub(super) fn upsert_pod(&mut self, pod: PodRefs) {
        self.delete_pod(&pod.namespace, &pod.name);
        if pod.node.is_empty() {
            return;
        }
        let node: Arc<str> = pod.node.as_str().into();
        pod.each(|kind, name| {
            let key = KeyRef { kind, namespace: &pod.namespace, name };
            *self.nodes.entry(key.to_key()).or_default().entry(node.clone()).or_insert(0) += 1;
        });
        let key = KeyRef { kind: Kind::Pod, namespace: &pod.namespace, name: &pod.name }.to_key();
        self.pods.insert(key, pod);
    }

    pub(super) fn delete_pod(&mut self, namespace: &str, name: &str) {
        let Some(pod) = self.pods.remove(&KeyRef { kind: Kind::Pod, namespace, name }) else {
            return;
        };
        pod.each(|kind, name| {
            let key = KeyRef { kind, namespace: &pod.namespace, name };
            let Some(counts) = self.nodes.get_mut(&key) else { return };
            if let Some(count) = counts.get_mut(pod.node.as_str()) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(pod.node.as_str());
                }
            }
            if counts.is_empty() {
                self.nodes.remove(&key);
            }
        });
    }

    pub(super) fn upsert_volume(&mut self, name: &str, claim: Option<ObjectName>, secrets: Vec<ObjectName>) {
        if let Some(old) = self.volumes.remove(name) {
            for (namespace, secret) in &old.secrets {
                let key = KeyRef { kind: Kind::Secret, namespace, name: secret };
                let Some(volumes) = self.volume_secrets.get_mut(&key) else { continue };
                volumes.retain(|volume| volume != name);
                if volumes.is_empty() {
                    self.volume_secrets.remove(&key);
                }
            }
        }
        let Some(claim) = claim else { return };
        for (namespace, secret) in &secrets {
            let key = KeyRef { kind: Kind::Secret, namespace, name: secret }.to_key();
            self.volume_secrets.entry(key).or_default().push(name.to_owned());
        }
        self.volumes.insert(name.to_owned(), VolumeRefs { claim, secrets });
    }

    pub(super) fn set_owner(&mut self, kind: Kind, name: &str, node: &str) {
        let key = KeyRef { kind, namespace: "", name };
        if node.is_empty() {
            self.owners.remove(&key);
        } else {
            self.owners.insert(key.to_key(), node.into());
        }
    }

    /// Whether the object is reachable from the node.
    pub(super) fn related(&self, node: &str, kind: Kind, namespace: &str, name: &str) -> bool {
        match kind {
            Kind::VolumeAttachment | Kind::ResourceSlice => {
                self.owners.get(&KeyRef { kind, namespace: "", name }).is_some_and(|owner| &**owner == node)
            }
            Kind::Volume => self.volume_related(node, name),
            Kind::Secret => {
                let key = KeyRef { kind, namespace, name };
                self.direct(node, kind, namespace, name)
                    || self
                        .volume_secrets
                        .get(&key)
                        .is_some_and(|volumes| volumes.iter().any(|volume| self.volume_related(node, volume)))
            }
            _ => self.direct(node, kind, namespace, name),
        }
    }

    fn direct(&self, node: &str, kind: Kind, namespace: &str, name: &str) -> bool {
        self.nodes.get(&KeyRef { kind, namespace, name }).is_some_and(|counts| counts.contains_key(node))
    }

    fn volume_related(&self, node: &str, name: &str) -> bool {
        self.volumes.get(name).is_some_and(|volume| self.direct(node, Kind::Claim, &volume.claim.0, &volume.claim.1))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
            && self.pods.is_empty()
            && self.volumes.is_empty()
            && self.volume_secrets.is_empty()
            && self.owners.is_empty()
    }
}

//! Whether a pod may run on a node: node selector, required node affinity, tolerations of `NoExecute` taints.

use std::collections::BTreeMap;

use oarlock_informer::{Fields, MANAGED_FIELDS_PATH, Project, ResourceName};
use oarlock_pods::node_affinity::RequiredNodes;
use oarlock_pods::{Effect, Toleration};
use oarlock_schema::views::core_v1::{Node, PodSpec};
use oarlock_schema::{Obj, Str};

/// Requirements of a pod on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Constraints {
    required: RequiredNodes,
    tolerations: Box<[Toleration<Str>]>,
}

/// Labels and `NoExecute` taints of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeView {
    pub(crate) name: Str,
    /// Sorted by key.
    pub(crate) labels: Vec<(Str, Str)>,
    /// Keys and values of the `NoExecute` taints.
    pub(crate) taints: Vec<(Str, Str)>,
}

impl Project for NodeView {
    const RESOURCE: ResourceName = ResourceName::core("nodes");
    // The status is the largest part of a Node, and has neither labels nor taints.
    const FIELDS: Fields = Fields::But(&[MANAGED_FIELDS_PATH, &["status"]]);

    fn project(obj: &Obj) -> Self {
        Self::read(obj.view().unwrap_or_else(|| Node::from_option(None)))
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

impl NodeView {
    pub(crate) fn read(node: Node<'_>) -> Self {
        let taints = node.spec().taints();
        Self {
            name: node.metadata().name().into(),
            labels: node.metadata().labels().iter().map(|(k, v)| (k.into(), v.into())).collect(),
            taints: taints
                .iter()
                .filter(|taint| taint.effect() == "NoExecute")
                .map(|taint| (taint.key().into(), taint.value().into()))
                .collect(),
        }
    }

    /// Returns the kubelet's own node before the Node has been read: the name and the labels it registers with, without taints.
    pub(crate) fn own(name: Str, labels: BTreeMap<String, String>) -> Self {
        let labels = labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self { name, labels, taints: Vec::new() }
    }

    fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok()?;
        self.labels.get(at).map(|(_, value)| value.as_str())
    }
}

impl Constraints {
    pub(crate) fn read(spec: PodSpec<'_>) -> Self {
        let tolerations = spec.tolerations();
        Self {
            required: RequiredNodes::read(spec),
            tolerations: tolerations.iter().filter_map(|one| Toleration::read(one, Str::from)).collect(),
        }
    }

    /// Whether the node's labels and name satisfy node selector and affinity.
    pub(crate) fn fits(&self, node: &NodeView) -> bool {
        self.required.matches(&node.name, |key| node.label(key))
    }

    /// Whether every `NoExecute` taint of the node is tolerated.
    pub(crate) fn tolerates(&self, node: &NodeView) -> bool {
        let tolerated =
            |(key, value): &(Str, Str)| self.tolerations.iter().any(|one| one.tolerates(key, value, Effect::NoExecute));
        node.taints.iter().all(tolerated)
    }
}

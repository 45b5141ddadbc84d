//! Projections of nodes and namespaces.

use oarlock_informer::{Project, ResourceName};
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::{Namespace, Node};

use crate::intern::Interner;
use crate::labels::Labels;
use crate::model::{NodeInfo, Taint};

use super::{requests, terms};

/// The fields of a node that the scheduler reads. Heartbeats and addresses are left out, so their changes wake no subscriber.
#[derive(Debug, PartialEq)]
pub(crate) struct NodeView(pub(crate) NodeInfo);

impl Project for NodeView {
    const RESOURCE: ResourceName = ResourceName::core("nodes");

    fn project(obj: &Obj) -> Self {
        let names = Interner::process();
        let node: Node<'_> = obj.view().unwrap_or_else(|| Node::from_option(None));
        let status = node.status();
        let mut allocatable = requests::amounts(status.allocatable(), &names);
        let pods = allocatable.remove(&names.resource("pods")).unwrap_or(0);
        let taints = node.spec().taints().iter().filter_map(|taint| Taint::read(taint, |text| names.intern(text)));
        let images = status.images().iter().flat_map(|image| {
            let size = image.size_bytes();
            image.names().iter().map(move |name| (name, size))
        });
        Self(NodeInfo {
            name: names.intern(node.metadata().name()),
            labels: terms::labels(node.metadata().labels(), &names),
            taints: taints.collect(),
            unschedulable: node.spec().unschedulable(),
            allocatable: requests::listed(&allocatable),
            pods,
            images: images.map(|(name, size)| (names.intern(name), size)).collect(),
        })
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// The labels of a namespace.
#[derive(Debug, PartialEq)]
pub(crate) struct NamespaceView(pub(crate) Labels);

impl Project for NamespaceView {
    const RESOURCE: ResourceName = ResourceName::core("namespaces");

    fn project(obj: &Obj) -> Self {
        let namespace: Namespace<'_> = obj.view().unwrap_or_else(|| Namespace::from_option(None));
        Self(terms::labels(namespace.metadata().labels(), &Interner::process()))
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

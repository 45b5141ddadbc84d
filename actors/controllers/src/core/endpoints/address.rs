//! The addresses and ports of pods in an Endpoints object.

use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_schema::views::{View, core_v1};
use oarlock_schema::{Str, Value};

use crate::core::endpointslice::plan::target;
use crate::core::service_pods::hostname;
use crate::project::{PodView, ServiceView};
use crate::write::node;

/// A Service port with its number at a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reached {
    pub(super) name: Str,
    pub(super) number: i64,
    pub(super) protocol: Str,
    pub(super) app_protocol: Option<Str>,
}

/// The address of a pod.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) ip: Str,
    pub(super) hostname: Option<Str>,
    pub(super) node: Option<Str>,
    pub(super) pod: Arc<Item<PodView>>,
}

impl Address {
    /// Returns the address of a pod of a Service.
    pub(super) fn of(service: &Item<ServiceView>, pod: &Arc<Item<PodView>>, ip: &Str) -> Self {
        let node = Some(pod.value.node.clone()).filter(|node| !node.is_empty());
        let hostname = hostname(service.meta.name(), &pod.value).cloned();
        Self { ip: ip.clone(), hostname, node, pod: pod.clone() }
    }

    /// Returns the address as a value of the Endpoints object.
    pub(super) fn write(&self) -> Value {
        let mut fields = vec![("ip", Value::from(self.ip.clone())), ("targetRef", target(&self.pod))];
        if let Some(name) = &self.hostname {
            fields.push(("hostname", name.clone().into()));
        }
        if let Some(name) = &self.node {
            fields.push(("nodeName", name.clone().into()));
        }
        Value::Struct(node(core_v1::EndpointAddress::TYPE, fields))
    }
}

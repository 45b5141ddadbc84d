//! Projections of Services and nodes for the cloud controllers.

use oarlock_cloud::wire;
use oarlock_informer::{Project, ResourceName};
use oarlock_schema::views::{List, core_v1};
use oarlock_schema::{Obj, Str};

use super::Taint;
use super::node::taints;

/// The projection of a Service for its load balancer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BalancedService {
    /// Whether `spec.type` is LoadBalancer.
    pub(crate) balanced: bool,
    /// The load balancer that the Service wants from the cloud; `None` if it wants none, or one of another class.
    pub(crate) wants: Option<Box<wire::LoadBalancerSpec>>,
    /// `status.loadBalancer.ingress`.
    pub(crate) ingress: Vec<wire::Ingress>,
}

impl Project for BalancedService {
    const RESOURCE: ResourceName = ResourceName::core("services");

    fn project(obj: &Obj) -> Self {
        let Some(service) = obj.view::<core_v1::Service<'_>>() else { return Self::default() };
        let balanced = service.spec().type_() == "LoadBalancer";
        let ours = balanced && service.spec().load_balancer_class().is_none();
        let ingress = service.status().load_balancer().ingress();
        Self {
            balanced,
            wants: ours.then(|| Box::new(wants(obj, &service))),
            ingress: ingress
                .iter()
                .map(|one| wire::Ingress {
                    ip: one.ip().to_owned(),
                    hostname: one.hostname().to_owned(),
                    ip_mode: one.ip_mode().unwrap_or("").to_owned(),
                })
                .collect(),
        }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

fn wants(obj: &Obj, service: &core_v1::Service<'_>) -> wire::LoadBalancerSpec {
    let spec = service.spec();
    let texts = |list: List<'_, &str>| list.iter().map(str::to_owned).collect();
    let small = |number: i64| i32::try_from(number).unwrap_or(0);
    let affinity = spec.session_affinity_config().and_then(|affinity| affinity.client_ip()?.timeout_seconds());
    wire::LoadBalancerSpec {
        annotations: obj.meta().annotations().iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        ports: spec
            .ports()
            .iter()
            .map(|port| wire::Port {
                name: port.name().to_owned(),
                protocol: port.protocol().to_owned(),
                port: small(port.port()),
                node_port: small(port.node_port()),
                app_protocol: port.app_protocol().map(str::to_owned),
            })
            .collect(),
        load_balancer_ip: spec.load_balancer_ip().to_owned(),
        source_ranges: texts(spec.load_balancer_source_ranges()),
        external_ips: texts(spec.external_ips()),
        external_traffic_policy: spec.external_traffic_policy().to_owned(),
        health_check_node_port: small(spec.health_check_node_port()),
        session_affinity: spec.session_affinity().to_owned(),
        session_affinity_seconds: small(affinity.unwrap_or(0)),
        ip_families: texts(spec.ip_families()),
    }
}

/// The projection of a node for the cloud controllers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CloudNode {
    /// `spec.providerID`.
    pub(crate) provider_id: Str,
    /// Whether condition Ready is True.
    pub(crate) ready: bool,
    /// `spec.taints`.
    pub(crate) taints: Box<[Taint]>,
    /// `status.addresses`.
    pub(crate) addresses: Vec<wire::Address>,
}

impl CloudNode {
    /// Whether the node has a taint of this key.
    pub(crate) fn has_taint(&self, key: &str) -> bool {
        self.taints.iter().any(|taint| taint.key == key)
    }
}

impl Project for CloudNode {
    const RESOURCE: ResourceName = ResourceName::core("nodes");
    const ANNOTATIONS: bool = true;

    fn project(obj: &Obj) -> Self {
        let Some(node) = obj.view::<core_v1::Node<'_>>() else { return Self::default() };
        let (conditions, addresses) = (node.status().conditions(), node.status().addresses());
        Self {
            provider_id: node.spec().provider_id().into(),
            ready: conditions.iter().any(|one| one.type_() == "Ready" && one.status() == "True"),
            taints: taints(&node),
            addresses: addresses
                .iter()
                .map(|one| wire::Address { r#type: one.type_().to_owned(), address: one.address().to_owned() })
                .collect(),
        }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

//! Projections of Services, EndpointSlices and Endpoints.

use oarlock_informer::{Project, ResourceName};
use oarlock_schema::views::{IntOrStr, core_v1, discovery_v1};
use oarlock_schema::{Obj, Str, Value};

/// The target port of a Service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetPort {
    /// A port number.
    Number(i64),
    /// The container port of this name.
    Name(Str),
}

/// A port of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServicePort {
    /// The port's name; may be empty for a single port.
    pub(crate) name: Str,
    /// TCP, UDP, SCTP.
    pub(crate) protocol: Str,
    /// `appProtocol`.
    pub(crate) app_protocol: Option<Str>,
    /// `targetPort`.
    pub(crate) target: TargetPort,
}

/// The projection of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServiceView {
    /// `spec.selector`; `None` without a selector, when another client writes the Service's endpoints.
    pub(crate) selector: Option<Box<[(Str, Str)]>>,
    /// Whether the type is ExternalName.
    pub(crate) external_name: bool,
    /// Whether `clusterIP` is None.
    pub(crate) headless: bool,
    /// `ipFamilies`.
    pub(crate) families: Box<[Str]>,
    /// `publishNotReadyAddresses`.
    pub(crate) publish_not_ready: bool,
    /// Ports.
    pub(crate) ports: Box<[ServicePort]>,
    /// `trafficDistribution`.
    pub(crate) prefers: Prefers,
}

/// The endpoints that clients prefer (`spec.trafficDistribution`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Prefers {
    /// No preference.
    #[default]
    All,
    /// Endpoints in the client's zone.
    Zone,
    /// Endpoints on the client's node, then those in the client's zone.
    Node,
}

impl Project for ServiceView {
    const RESOURCE: ResourceName = ResourceName::core("services");
    const ANNOTATIONS: bool = true;

    fn project(obj: &Obj) -> Self {
        let Some(service) = obj.view::<core_v1::Service<'_>>() else { return Self::default() };
        let spec = service.spec();
        let selector = spec.selector();
        Self {
            selector: (!selector.is_empty())
                .then(|| selector.iter().map(|(key, value)| (Str::from(key), Str::from(value))).collect()),
            external_name: spec.type_() == "ExternalName",
            headless: spec.cluster_ip() == "None",
            families: spec.ip_families().iter().map(Str::from).collect(),
            publish_not_ready: spec.publish_not_ready_addresses(),
            prefers: match spec.traffic_distribution() {
                Some("PreferClose" | "PreferSameZone") => Prefers::Zone,
                Some("PreferSameNode") => Prefers::Node,
                _ => Prefers::All,
            },
            ports: spec
                .ports()
                .iter()
                .map(|port| ServicePort {
                    name: port.name().into(),
                    protocol: port.protocol().into(),
                    app_protocol: port.app_protocol().map(Str::from),
                    target: match port.target_port() {
                        IntOrStr::Int(0) => TargetPort::Number(port.port()),
                        IntOrStr::Int(number) => TargetPort::Number(number),
                        IntOrStr::Str(name) => TargetPort::Name(name.into()),
                    },
                })
                .collect(),
        }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// The projection of an EndpointSlice: all of its content, to be compared with the wanted one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SliceView {
    /// IPv4 or IPv6.
    pub(crate) family: Str,
    /// `endpoints`.
    pub(crate) endpoints: Vec<Value>,
    /// `ports`.
    pub(crate) ports: Vec<Value>,
}

impl Project for SliceView {
    const RESOURCE: ResourceName = ResourceName::new("discovery.k8s.io", "v1", "endpointslices");
    const ANNOTATIONS: bool = true;

    fn project(obj: &Obj) -> Self {
        let Some(slice) = obj.view::<discovery_v1::EndpointSlice<'_>>() else { return Self::default() };
        Self {
            family: slice.address_type().into(),
            endpoints: slice.endpoints().values().to_vec(),
            ports: slice.ports().values().to_vec(),
        }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// The projection of an Endpoints object: all of its content.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EndpointsView {
    /// `subsets`.
    pub(crate) subsets: Vec<Value>,
}

impl Project for EndpointsView {
    const RESOURCE: ResourceName = ResourceName::core("endpoints");
    const ANNOTATIONS: bool = true;

    fn project(obj: &Obj) -> Self {
        let endpoints = obj.view::<core_v1::Endpoints<'_>>();
        Self { subsets: endpoints.map(|endpoints| endpoints.subsets().values().to_vec()).unwrap_or_default() }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

//! The cells of `kubectl get`: one function per kind, with upstream's texts (`pkg/printers/internalversion`).
//!
//! Columns are facts of the resource ([`Resource::columns`](oarlock_schema::Resource)); the cells come from the printer in the resource's row of [`ROWS`].
//! A resource without a row shows its name and creation time.

mod admission;
mod apps;
mod autoscaling;
mod batch;
mod core;
mod discovery;
mod event;
mod flow;
mod networking;
mod node;
mod now;
mod oarlock;
mod pod;
mod policy;
mod rbac;
mod resource;
mod service;
mod storage;
mod text;
mod volume;

use oarlock_schema::views::{self, View};
use oarlock_schema::{Obj, Resource, Struct, Value};

pub use now::Now;

/// One row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Cells in column order. Some kinds have more or fewer cells than columns, as upstream.
    pub cells: Vec<Value>,
    /// Reason and message of the condition `Completed`, which lets clients hide finished pods.
    pub completed: Option<(&'static str, &'static str)>,
}

impl From<Vec<Value>> for Row {
    fn from(cells: Vec<Value>) -> Self {
        Self { cells, completed: None }
    }
}

/// Makes cells of anything that converts to a node of the tree.
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$(oarlock_schema::Value::from($cell)),*] };
}
pub(crate) use cells;

/// A printer: makes the row of one object.
pub type Print = fn(&Struct, Now) -> Row;

/// Returns the printer of a resource; look up the printer once per list.
#[must_use]
pub fn printer(resource: &Resource) -> Print {
    let found = ROWS.iter().find(|(group, plural, _)| (*group, *plural) == (resource.group, resource.plural));
    match found {
        Some(_) if (resource.plural, resource.version) == ("horizontalpodautoscalers", "v1") => |node, now| {
            views::autoscaling_v1::HorizontalPodAutoscaler::of(node)
                .map_or_else(Row::default, |view| autoscaling::horizontal_v1(view, now).into())
        },
        Some((_, _, print)) => *print,
        // A resource without columns of its own has Name and Age or Created At.
        None if resource.columns.iter().any(|c| c.name == "Age") => named_and_age,
        None => named_and_created,
    }
}

/// Returns the printer of Scale, the subresource with columns of its own ([`SCALE_COLUMNS`]).
#[must_use]
pub fn scale_printer() -> Print {
    |node, now| {
        views::autoscaling_v1::Scale::of(node).map_or_else(Row::default, |view| autoscaling::scale(view, now).into())
    }
}

/// Columns of a Scale: heading, type, format.
pub const SCALE_COLUMNS: [(&str, &str, &str); 4] =
    [("Name", "string", "name"), ("Desired", "integer", ""), ("Available", "integer", ""), ("Age", "string", "")];

/// The sort key of a list's rows.
pub type Order = fn(&Obj) -> (i64, String);

/// Returns the sort key of a list's table, if its order differs from that of the list: flow schemas are sorted by precedence, then name.
#[must_use]
pub fn order(resource: &Resource) -> Option<Order> {
    ((resource.group, resource.plural) == ("flowcontrol.apiserver.k8s.io", "flowschemas")).then_some(flow::precedence)
}

fn named_and_age(node: &Struct, now: Now) -> Row {
    let meta = meta(node);
    cells![meta.name(), now.since(meta.creation_timestamp())].into()
}

fn named_and_created(node: &Struct, _: Now) -> Row {
    let meta = meta(node);
    let created = meta.creation_timestamp();
    // Go's zero time.
    cells![meta.name(), if created.is_empty() { "0001-01-01T00:00:00Z" } else { created }].into()
}

fn meta(node: &Struct) -> views::meta_v1::ObjectMeta<'_> {
    views::meta_v1::ObjectMeta::from_option(node.get("metadata").and_then(Value::as_struct))
}

/// Binds resources to the functions that print their views.
macro_rules! printers {
    ($($group:literal $plural:literal $module:ident::$view:ident => $print:path;)*) => {
        /// Group, plural name and printer of each resource that has one.
        const ROWS: &[(&str, &str, Print)] = &[$((
            $group,
            $plural,
            |node, now| views::$module::$view::of(node).map_or_else(Row::default, |view| $print(view, now).into()),
        )),*];
    };
}

printers! {
    "" "componentstatuses" core_v1::ComponentStatus => core::component_status;
    "" "configmaps" core_v1::ConfigMap => core::config_map;
    "" "endpoints" core_v1::Endpoints => discovery::endpoints;
    "" "events" core_v1::Event => event::core;
    "" "namespaces" core_v1::Namespace => core::namespace;
    "" "nodes" core_v1::Node => node::node;
    "" "persistentvolumeclaims" core_v1::PersistentVolumeClaim => volume::claim;
    "" "persistentvolumes" core_v1::PersistentVolume => volume::volume;
    "" "pods" core_v1::Pod => pod::pod;
    "" "podtemplates" core_v1::PodTemplate => core::pod_template;
    "" "replicationcontrollers" core_v1::ReplicationController => core::replication_controller;
    "" "resourcequotas" core_v1::ResourceQuota => core::resource_quota;
    "" "secrets" core_v1::Secret => core::secret;
    "" "services" core_v1::Service => service::service;
    "admissionregistration.k8s.io" "mutatingwebhookconfigurations" admissionregistration_v1::MutatingWebhookConfiguration => admission::mutating;
    "admissionregistration.k8s.io" "validatingadmissionpolicies" admissionregistration_v1::ValidatingAdmissionPolicy => admission::policy;
    "admissionregistration.k8s.io" "validatingadmissionpolicybindings" admissionregistration_v1::ValidatingAdmissionPolicyBinding => admission::policy_binding;
    "admissionregistration.k8s.io" "validatingwebhookconfigurations" admissionregistration_v1::ValidatingWebhookConfiguration => admission::validating;
    "apiregistration.k8s.io" "apiservices" apiregistration_v1::APIService => policy::api_service;
    "apps" "controllerrevisions" apps_v1::ControllerRevision => apps::controller_revision;
    "apps" "daemonsets" apps_v1::DaemonSet => apps::daemon_set;
    "apps" "deployments" apps_v1::Deployment => apps::deployment;
    "apps" "replicasets" apps_v1::ReplicaSet => apps::replica_set;
    "apps" "statefulsets" apps_v1::StatefulSet => apps::stateful_set;
    "autoscaling" "horizontalpodautoscalers" autoscaling_v2::HorizontalPodAutoscaler => autoscaling::horizontal;
    "batch" "cronjobs" batch_v1::CronJob => batch::cron_job;
    "batch" "jobs" batch_v1::Job => batch::job;
    "certificates.k8s.io" "certificatesigningrequests" certificates_v1::CertificateSigningRequest => policy::signing_request;
    "coordination.k8s.io" "leases" coordination_v1::Lease => policy::lease;
    "discovery.k8s.io" "endpointslices" discovery_v1::EndpointSlice => discovery::slice;
    "events.k8s.io" "events" events_v1::Event => event::events;
    "flowcontrol.apiserver.k8s.io" "flowschemas" flowcontrol_v1::FlowSchema => flow::flow_schema;
    "flowcontrol.apiserver.k8s.io" "prioritylevelconfigurations" flowcontrol_v1::PriorityLevelConfiguration => flow::priority_level;
    "networking.k8s.io" "ingressclasses" networking_v1::IngressClass => networking::ingress_class;
    "networking.k8s.io" "ingresses" networking_v1::Ingress => networking::ingress;
    "networking.k8s.io" "ipaddresses" networking_v1::IPAddress => networking::ip_address;
    "networking.k8s.io" "networkpolicies" networking_v1::NetworkPolicy => networking::network_policy;
    "networking.k8s.io" "servicecidrs" networking_v1::ServiceCIDR => networking::service_cidr;
    "node.k8s.io" "runtimeclasses" node_v1::RuntimeClass => policy::runtime_class;
    "oarlock.dev" "actors" oarlock_v1::Actor => oarlock::actor;
    "oarlock.dev" "assignments" oarlock_v1::Assignment => oarlock::assignment;
    "policy" "poddisruptionbudgets" policy_v1::PodDisruptionBudget => policy::disruption_budget;
    "rbac.authorization.k8s.io" "clusterrolebindings" rbac_v1::ClusterRoleBinding => rbac::cluster_role_binding;
    "rbac.authorization.k8s.io" "rolebindings" rbac_v1::RoleBinding => rbac::role_binding;
    "resource.k8s.io" "resourceclaims" resource_v1::ResourceClaim => resource::claim;
    "resource.k8s.io" "resourceslices" resource_v1::ResourceSlice => resource::slice;
    "scheduling.k8s.io" "priorityclasses" scheduling_v1::PriorityClass => policy::priority_class;
    "storage.k8s.io" "csidrivers" storage_v1::CSIDriver => storage::driver;
    "storage.k8s.io" "csinodes" storage_v1::CSINode => storage::node;
    "storage.k8s.io" "storageclasses" storage_v1::StorageClass => storage::class;
    "storage.k8s.io" "volumeattachments" storage_v1::VolumeAttachment => storage::attachment;
    "storage.k8s.io" "volumeattributesclasses" storage_v1::VolumeAttributesClass => storage::attributes_class;
}

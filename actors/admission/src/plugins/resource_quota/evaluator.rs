//! What quotas count, by kind (upstream `quota.Evaluator`).

use oarlock_schema::{Obj, Resource};

use super::{claims, pods, usage};
use crate::attributes::{Attributes, Operation};
use oarlock_pods::Amounts;

/// How objects of a kind are counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Evaluator {
    /// Pods: amounts of resources, until they have ended.
    Pods,
    /// Services: by type and port.
    Services,
    /// Claims: storage, by class too.
    Claims,
    /// Device claims: devices by class (KEP-4381).
    Devices,
    /// Everything else: its number.
    Objects(&'static Resource),
}

/// Kinds whose number is also counted under an old name without `count/`.
const OLD_NAMES: &[&str] = &["configmaps", "secrets", "replicationcontrollers", "resourcequotas"];

/// Kinds that are never counted: events, and those that are only answered.
fn ignored(resource: &Resource) -> bool {
    resource.plural == "events" || resource.storage.is_none()
}

impl Evaluator {
    /// How the object of a request is counted; `None` when the request adds nothing.
    pub(super) fn of(attributes: &Attributes<'_>) -> Option<Self> {
        let resource = attributes.resource;
        let (create, main) = (attributes.operation == Operation::Create, attributes.subresource.is_empty());
        match (resource.group, resource.plural) {
            ("", "pods") => {
                let resize = attributes.subresource == "resize" && !create;
                (resize || (create && main)).then_some(Self::Pods)
            }
            _ if !main => None,
            ("", "services") => Some(Self::Services),
            ("", "persistentvolumeclaims") => Some(Self::Claims),
            ("resource.k8s.io", "resourceclaims") => Some(Self::Devices),
            _ => (create && !ignored(resource)).then_some(Self::Objects(resource)),
        }
    }

    /// Whether a quota's resource name is one of those that this kind counts under.
    pub(super) fn counts(self, name: &str) -> bool {
        match self {
            Self::Pods => pods::counts(name),
            Self::Services => {
                matches!(name, "services" | "services.nodeports" | "services.loadbalancers" | "count/services")
            }
            Self::Claims => claims::counts(name),
            Self::Devices => usage::counts_devices(name),
            Self::Objects(resource) => name == usage::count_name(resource) || old_name(resource) == Some(name),
        }
    }

    /// What must be said about an object under a quota of these resources.
    pub(super) fn must_specify(self, counted: &[&str], object: &Obj) -> Result<(), String> {
        match self {
            Self::Pods => pods::must_specify(counted, object),
            _ => Ok(()),
        }
    }

    /// What an object uses.
    pub(super) fn usage(self, object: &Obj) -> Amounts {
        match self {
            Self::Pods => pods::usage(object),
            Self::Services => usage::service(object),
            Self::Claims => claims::usage(object),
            Self::Devices => usage::devices(object),
            Self::Objects(resource) => {
                let mut amounts = Amounts::default();
                amounts.set(usage::count_name(resource), usage::whole(1));
                if let Some(name) = old_name(resource) {
                    amounts.set(name, usage::whole(1));
                }
                amounts
            }
        }
    }
}

fn old_name(resource: &Resource) -> Option<&'static str> {
    let plural = OLD_NAMES.iter().find(|plural| **plural == resource.plural)?;
    resource.group.is_empty().then_some(plural)
}

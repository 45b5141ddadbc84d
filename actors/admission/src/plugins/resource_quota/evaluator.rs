//! How quotas count each kind (upstream `quota.Evaluator`).

use oarlock_schema::{Obj, Resource};

use super::{claims, pods, usage};
use crate::attributes::{Attributes, Operation};
use oarlock_pods::Amounts;

/// The way in which objects of a kind are counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Evaluator {
    /// Pods: number and resources, until they have ended.
    Pods,
    /// Services: by type and port.
    Services,
    /// Claims: number and storage, also by class.
    Claims,
    /// Device claims: devices by class (KEP-4381).
    Devices,
    /// All other kinds: number of objects.
    Objects(&'static Resource),
}

/// Kinds whose number is also counted under an old name without `count/`.
const OLD_NAMES: &[&str] = &["configmaps", "secrets", "replicationcontrollers", "resourcequotas"];

/// Kinds that are never counted: events, and kinds that are not stored.
fn ignored(resource: &Resource) -> bool {
    resource.plural == "events" || resource.storage.is_none()
}

impl Evaluator {
    /// Returns how the object of a request is counted; `None` when the request adds nothing.
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

    /// Whether this kind is counted under a quota's resource name.
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

    /// Checks that an object has the fields that a quota of these resources requires.
    pub(super) fn must_specify(self, counted: &[&str], object: &Obj) -> Result<(), String> {
        match self {
            Self::Pods => pods::must_specify(counted, object),
            _ => Ok(()),
        }
    }

    /// Returns the usage of an object.
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

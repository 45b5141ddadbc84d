//! Namespaces: Active until deleted, then Terminating until their content is gone and `spec.finalizers` is empty.

use oarlock_schema::views::core_v1::{Namespace, NamespaceMut};
use oarlock_schema::{Obj, Resource, Value};

use crate::kind::Strategy;
use crate::prepare::{self, Endpoint};

/// Finalizer in `spec.finalizers` that the namespace controller removes last.
pub const KUBERNETES: &str = "kubernetes";

/// Strategy of namespaces.
#[derive(Debug)]
pub struct NamespaceStrategy;

impl Strategy for NamespaceStrategy {
    fn prepare_create(&self, resource: &Resource, obj: &mut Obj) {
        prepare::reset_for_create(resource, obj);
        let has = obj.view::<Namespace<'_>>().is_some_and(|ns| ns.spec().finalizers().iter().any(|f| f == KUBERNETES));
        let mut namespace = NamespaceMut::new(obj);
        if !has {
            namespace.spec_mut().finalizers_mut().push(Value::from(KUBERNETES));
        }
        namespace.status_mut().set_phase("Active");
    }

    fn prepare_update(&self, resource: &Resource, endpoint: Endpoint<'_>, new: &mut Obj, old: &Obj) {
        match endpoint {
            // Only this endpoint may change `spec.finalizers`, and only that.
            "finalize" => prepare::restore(new, old, &["status"]),
            "" => {
                prepare::reset_for_update(resource, endpoint, new, old);
                prepare::restore(new, old, &["spec", "status"]);
            }
            _ => prepare::reset_for_update(resource, endpoint, new, old),
        }
    }

    fn begin_delete(&self, obj: &mut Obj) {
        NamespaceMut::new(obj).status_mut().set_phase("Terminating");
    }

    fn holds_deletion(&self, obj: &Obj) -> bool {
        obj.view::<Namespace<'_>>().is_some_and(|ns| !ns.spec().finalizers().is_empty())
    }
}

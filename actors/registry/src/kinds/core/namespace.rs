//! Namespaces: Active until deleted, then Terminating until their content is deleted and `spec.finalizers` is empty.

use oarlock_meta::{ErrorList, Path};
use oarlock_schema::views::core_v1::{Namespace, NamespaceMut};
use oarlock_schema::{Obj, Value};

use crate::fields;
use crate::kind::{Request, Strategy};

/// The finalizer in `spec.finalizers` that the namespace controller removes last.
pub const KUBERNETES: &str = "kubernetes";

/// Strategy of namespaces.
#[derive(Debug)]
pub struct NamespaceStrategy;

impl Strategy for NamespaceStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        fields::reset_for_create(request.resource, obj);
        // A generated name is not yet in the labels.
        let name = obj.name().to_owned();
        if let Some(mut meta) = obj.meta_mut() {
            meta.labels_mut().insert("kubernetes.io/metadata.name", name);
        }
        let has = obj.view::<Namespace<'_>>().is_some_and(|ns| ns.spec().finalizers().iter().any(|f| f == KUBERNETES));
        let mut namespace = NamespaceMut::new(obj);
        if !has {
            namespace.spec_mut().finalizers_mut().push(Value::from(KUBERNETES));
        }
        namespace.status_mut().set_phase("Active");
    }

    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        match request.endpoint {
            // This endpoint alone may change `spec.finalizers`, and changes nothing else.
            "finalize" => fields::restore(new, old, &["status"]),
            "" => {
                fields::reset_for_update(request.resource, request.endpoint, new, old);
                fields::restore(new, old, &["spec", "status"]);
            }
            _ => fields::reset_for_update(request.resource, request.endpoint, new, old),
        }
    }

    fn validate(&self, request: &Request<'_>, new: &Obj, _old: Option<&Obj>, errors: &mut ErrorList) {
        let finalizers = new.at(&["spec", "finalizers"]).filter(|_| request.endpoint == "finalize");
        let at = Path::new("spec");
        let at = at.child("finalizers");
        for (i, name) in finalizers.map_or(&[][..], Value::items).iter().enumerate() {
            oarlock_apis::core::namespace::finalizer(name.as_str().unwrap_or(""), &at.index(i), errors);
        }
    }

    fn marks_first(&self) -> bool {
        true
    }

    fn begin_delete(&self, obj: &mut Obj, _now: &str) {
        NamespaceMut::new(obj).status_mut().set_phase("Terminating");
    }

    fn holds_deletion(&self, obj: &Obj) -> bool {
        obj.view::<Namespace<'_>>().is_some_and(|ns| !ns.spec().finalizers().is_empty())
    }
}

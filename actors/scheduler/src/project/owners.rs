//! Projections of services and of the owners of pods to their selectors.

use oarlock_informer::{Project, ResourceName};
use oarlock_schema::Obj;
use oarlock_schema::views::apps_v1::{ReplicaSet, StatefulSet};
use oarlock_schema::views::core_v1::{ReplicationController, Service};

use crate::intern::Interner;
use crate::labels::{Labels, Selector};
use crate::model::OwnerKind;

use super::terms;

/// The selector of a service; `None` if the service selects nothing.
#[derive(Debug, PartialEq)]
pub(crate) struct ServiceView(pub(crate) Option<Labels>);

impl Project for ServiceView {
    const RESOURCE: ResourceName = ResourceName::core("services");

    fn project(obj: &Obj) -> Self {
        let service: Service<'_> = obj.view().unwrap_or_else(|| Service::from_option(None));
        let selector = service.spec().selector();
        Self((!selector.is_empty()).then(|| terms::labels(selector, &Interner::process())))
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// A projection of an owner kind to its selector.
pub(crate) trait SelectorOf: Project {
    /// The kind of owner.
    const KIND: OwnerKind;

    /// Returns the owner's selector.
    fn selector(&self) -> &Selector;
}

macro_rules! owner {
    ($(#[$doc:meta])* $view:ident, $kind:ident, $resource:expr, $read:expr) => {
        $(#[$doc])*
        #[derive(Debug, PartialEq)]
        pub(crate) struct $view(Selector);

        impl Project for $view {
            const RESOURCE: ResourceName = $resource;

            fn project(obj: &Obj) -> Self {
                let object: $kind<'_> = obj.view().unwrap_or_else(|| $kind::from_option(None));
                let read: fn($kind<'_>, &Interner) -> Selector = $read;
                Self(read(object, &Interner::process()))
            }

            fn same(&self, next: &Self) -> bool {
                self == next
            }
        }

        impl SelectorOf for $view {
            const KIND: OwnerKind = OwnerKind::$kind;

            fn selector(&self) -> &Selector {
                &self.0
            }
        }
    };
}

owner!(
    /// The selector of a ReplicaSet.
    ReplicaSetView,
    ReplicaSet,
    ResourceName::new("apps", "v1", "replicasets"),
    |object, names| terms::selector(object.spec().selector(), names)
);
owner!(
    /// The selector of a StatefulSet.
    StatefulSetView,
    StatefulSet,
    ResourceName::new("apps", "v1", "statefulsets"),
    |object, names| terms::selector(object.spec().selector(), names)
);
owner!(
    /// The selector of a ReplicationController.
    ReplicationControllerView,
    ReplicationController,
    ResourceName::core("replicationcontrollers"),
    |object, names| Selector::All(terms::equalities(object.spec().selector(), names).into())
);

//! Projections of namespaces, of the objects that every namespace has, and of ClusterRoles.

use oarlock_informer::{Project, ResourceName};
use oarlock_meta::LabelSelector;
use oarlock_schema::views::{View, core_v1, rbac_v1};
use oarlock_schema::{Obj, Str, Value};

use super::deployment::Condition;
use super::{Digest, selector};

/// The projection of a Namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamespaceView {
    /// `status.phase`.
    pub(crate) phase: Str,
    /// `status.conditions`.
    pub(crate) conditions: Vec<Condition>,
    /// `spec.finalizers`.
    pub(crate) finalizers: Box<[Str]>,
}

impl Project for NamespaceView {
    const RESOURCE: ResourceName = ResourceName::core("namespaces");

    fn project(obj: &Obj) -> Self {
        let Some(namespace) = obj.view::<core_v1::Namespace<'_>>() else { return Self::default() };
        Self {
            phase: namespace.status().phase().into(),
            conditions: namespace.status().conditions().values().iter().filter_map(Condition::read).collect(),
            finalizers: namespace.spec().finalizers().iter().map(Str::from).collect(),
        }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// The projection of a ServiceAccount, of which only the existence matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccountView;

impl Project for AccountView {
    const RESOURCE: ResourceName = ResourceName::core("serviceaccounts");

    fn project(_: &Obj) -> Self {
        Self
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// The projection of a ConfigMap `kube-root-ca.crt`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CaBundle {
    /// `data["ca.crt"]`.
    pub(crate) pem: Option<Digest>,
    /// Whether `data` has no other key.
    pub(crate) alone: bool,
}

impl Project for CaBundle {
    const RESOURCE: ResourceName = ResourceName::core("configmaps");
    const ANNOTATIONS: bool = true;

    fn project(obj: &Obj) -> Self {
        let Some(map) = obj.view::<core_v1::ConfigMap<'_>>() else { return Self::default() };
        let pem = map.data().get("ca.crt").map(|pem| Digest::value_of(&Value::from(pem)));
        Self { pem, alone: map.data().len() == 1 && map.binary_data().is_empty() }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// The projection of a ClusterRole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Role {
    /// The selectors of an aggregated role; `None` for others.
    pub(crate) aggregates: Option<Vec<LabelSelector>>,
    /// The rules.
    pub(crate) rules: Vec<Value>,
}

impl Project for Role {
    const RESOURCE: ResourceName = ResourceName::new("rbac.authorization.k8s.io", "v1", "clusterroles");

    fn project(obj: &Obj) -> Self {
        let Some(role) = obj.view::<rbac_v1::ClusterRole<'_>>() else { return Self::default() };
        let aggregates = role
            .aggregation_rule()
            .filter(|rule| rule.exists())
            .map(|rule| rule.cluster_role_selectors().iter().filter_map(|one| selector(Some(one))).collect());
        Self { aggregates, rules: role.rules().values().to_vec() }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

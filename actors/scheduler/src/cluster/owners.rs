//! Selectors of services and controlling owners, from which upstream derives a pod's default spread selector
//! (`DefaultSelector` in `plugins/helper/spread.go`).

use std::collections::BTreeMap;

use crate::intern::{Interner, Sym};
use crate::labels::{Labels, Requirement, Selector};
use crate::map::Map;
use crate::model::{OwnerKind, PodSpec};

/// Selectors of services and owners.
#[derive(Clone, Default)]
pub(crate) struct Owners {
    services: Map<Sym, BTreeMap<Sym, Labels>>,
    owners: Map<(Sym, OwnerKind, Sym), Selector>,
    /// Number of changes, so that a class can detect a change of its default selector.
    pub(crate) changes: u64,
}

impl Owners {
    /// Sets or removes a service's selector. A service without a selector matches no pod.
    pub(crate) fn set_service(&mut self, namespace: Sym, name: Sym, selector: Option<Labels>) {
        let services = self.services.entry(namespace).or_default();
        let changed = match selector {
            Some(selector) => services.insert(name, selector.clone()).is_none_or(|old| old != selector),
            None => services.remove(&name).is_some(),
        };
        self.changes += u64::from(changed);
    }

    /// Sets or removes an owner's selector.
    pub(crate) fn set_owner(&mut self, namespace: Sym, kind: OwnerKind, name: Sym, selector: Option<Selector>) {
        let key = (namespace, kind, name);
        let changed = match selector {
            Some(selector) => self.owners.insert(key, selector.clone()).is_none_or(|old| old != selector),
            None => self.owners.remove(&key).is_some(),
        };
        self.changes += u64::from(changed);
    }

    /// Returns namespaces and names of the services with selectors.
    pub(crate) fn known_services(&self) -> Vec<(Sym, Sym)> {
        let named = |(namespace, services): (&Sym, &BTreeMap<Sym, Labels>)| {
            services.keys().map(|name| (*namespace, *name)).collect::<Vec<_>>()
        };
        self.services.iter().flat_map(named).collect()
    }

    /// Returns namespaces and names of the owners of a kind.
    pub(crate) fn known_owners(&self, kind: OwnerKind) -> Vec<(Sym, Sym)> {
        self.owners.keys().filter(|key| key.1 == kind).map(|key| (key.0, key.2)).collect()
    }

    /// Returns the combined selector of the pod's services and owner, if any.
    pub(crate) fn default_selector(&self, spec: &PodSpec, names: &Interner) -> Option<Selector> {
        let mut merged: BTreeMap<Sym, Sym> = BTreeMap::new();
        for selector in self.services.get(&spec.namespace).into_iter().flat_map(BTreeMap::values) {
            let requirements: Box<[Requirement]> =
                selector.iter().map(|(key, value)| Requirement::equals(key, value)).collect();
            if Selector::All(requirements).matches(&spec.labels, names) {
                merged.extend(selector.iter());
            }
        }
        let mut requirements: Vec<Requirement> =
            merged.into_iter().map(|(key, value)| Requirement::equals(key, value)).collect();
        let owner = spec.owner.and_then(|owner| self.owners.get(&(spec.namespace, owner.kind, owner.name)));
        if let Some(Selector::All(more)) = owner {
            requirements.extend(more.iter().cloned());
        }
        requirements.sort_by_key(|requirement| requirement.key);
        requirements.dedup();
        (!requirements.is_empty()).then(|| Selector::All(requirements.into()))
    }
}

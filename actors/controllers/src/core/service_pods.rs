//! Finds the pods that a Service selects, by an index over label pairs rather than a scan.

use std::collections::BTreeSet;
use std::sync::Arc;

use oarlock_informer::{Cache, Change, Index, Item, Key};
use oarlock_schema::Str;

use crate::project::{PodView, ServicePort, ServiceView, target_port};

/// An index of pods by label pairs.
#[derive(Clone, Debug)]
pub(crate) struct PodsByLabels {
    pairs: Index<PodView>,
}

fn pair(namespace: &str, key: &str, value: &str) -> String {
    format!("{namespace}/{key}={value}")
}

impl PodsByLabels {
    /// Creates the index of a cache.
    pub(crate) fn of(pods: &Arc<Cache<PodView>>) -> Self {
        let pairs = pods.index("label pairs", |pod, value| {
            for (key, label) in &pod.meta.labels {
                value(&pair(pod.meta.namespace(), key, label));
            }
        });
        Self { pairs }
    }

    /// Returns the pods of a namespace that have all of these labels, in key order.
    pub(crate) fn get(&self, namespace: &str, selector: &[(Str, Str)]) -> Vec<Arc<Item<PodView>>> {
        let row = |(key, value): &(Str, Str)| pair(namespace, key, value);
        let Some(rarest) = selector.iter().map(row).min_by_key(|row| self.pairs.count(row)) else { return Vec::new() };
        let mut pods = self.pairs.get(&rarest);
        pods.retain(|pod| carries(pod, selector));
        pods
    }
}

fn carries(pod: &Item<PodView>, selector: &[(Str, Str)]) -> bool {
    selector.iter().all(|(key, value)| pod.meta.label(key) == Some(value.as_str()))
}

/// Returns a Service's pod selector if the controllers maintain the Service's addresses; `None` without a selector or while the Service is being deleted.
pub(crate) fn selector_of(service: &Item<ServiceView>) -> Option<&[(Str, Str)]> {
    let kept = !service.value.external_name && !service.meta.deleting();
    service.value.selector.as_deref().filter(|_| kept)
}

/// Enqueues the Services that a change of a pod concerns: those that selected the pod before the change or select it now.
pub(crate) fn services_of(services: &Cache<ServiceView>, change: &Change<PodView>, enqueue: &mut dyn FnMut(Key)) {
    let states: Vec<&Arc<Item<PodView>>> = [&change.old, &change.new].into_iter().flatten().collect();
    let mut found = BTreeSet::new();
    for service in services.in_namespace(&change.key.namespace) {
        let Some(selector) = &service.value.selector else { continue };
        if states.iter().any(|pod| carries(pod, selector)) {
            found.insert(service.key().clone());
        }
    }
    found.into_iter().for_each(enqueue);
}

/// Whether a pod can be an endpoint: has an address and has not ended (upstream `ShouldPodBeInEndpoints`).
pub(crate) fn counts(pod: &Item<PodView>, terminating: bool) -> bool {
    !pod.value.terminal() && !pod.value.ips.is_empty() && (terminating || !pod.meta.deleting())
}

/// Returns the ports of a Service that the pod has, each with the pod's port number.
pub(crate) fn ports<'a>(service: &'a ServiceView, pod: &PodView) -> Vec<(&'a ServicePort, i64)> {
    let at = |port: &'a ServicePort| Some((port, target_port(pod, &port.target, &port.protocol)?));
    service.ports.iter().filter_map(at).collect()
}

/// Returns the host name of a pod in a headless Service.
pub(crate) fn hostname<'a>(service: &str, pod: &'a PodView) -> Option<&'a Str> {
    (!pod.hostname.is_empty() && pod.subdomain == service).then_some(&pod.hostname)
}

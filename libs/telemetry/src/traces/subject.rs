//! The object that a life is about, as spans name it.

use opentelemetry::Value;

/// The object of a life, at the generation that a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The object's kind, such as `Deployment`.
    pub kind: &'a str,
    /// The object's namespace; empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.generation`; 0 for kinds without generations.
    pub generation: i64,
}

/// Kinds that have attributes of their own in OpenTelemetry's conventions for Kubernetes, with the attributes of name and UID.
const CONVENTIONS: [(&str, &str, &str); 9] = [
    ("Pod", "k8s.pod.name", "k8s.pod.uid"),
    ("Deployment", "k8s.deployment.name", "k8s.deployment.uid"),
    ("ReplicaSet", "k8s.replicaset.name", "k8s.replicaset.uid"),
    ("StatefulSet", "k8s.statefulset.name", "k8s.statefulset.uid"),
    ("DaemonSet", "k8s.daemonset.name", "k8s.daemonset.uid"),
    ("Job", "k8s.job.name", "k8s.job.uid"),
    ("CronJob", "k8s.cronjob.name", "k8s.cronjob.uid"),
    ("ReplicationController", "k8s.replicationcontroller.name", "k8s.replicationcontroller.uid"),
    ("Node", "k8s.node.name", "k8s.node.uid"),
];

/// Returns the kinds that have attributes of their own.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    CONVENTIONS.iter().map(|(kind, ..)| *kind)
}

/// Gives each attribute that names the object.
pub(crate) fn describe(subject: &Subject<'_>, mut set: impl FnMut(&'static str, Value)) {
    let text = |text: &str| Value::from(text.to_owned());
    if !subject.namespace.is_empty() {
        set("k8s.namespace.name", text(subject.namespace));
    }
    match CONVENTIONS.iter().find(|(kind, ..)| *kind == subject.kind) {
        Some((_, name, uid)) => {
            set(name, text(subject.name));
            set(uid, text(subject.uid));
        }
        None => {
            set("oarlock.object.kind", text(subject.kind));
            set("oarlock.object.name", text(subject.name));
            set("oarlock.object.uid", text(subject.uid));
        }
    }
    set("oarlock.object.generation", subject.generation.into());
}

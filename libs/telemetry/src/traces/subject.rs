//! The object that a life is about, as spans name it.

use super::{Change, Step};

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

impl Subject<'_> {
    /// Returns the change that led to the generation.
    #[must_use]
    pub fn change(&self) -> Change {
        Change::new(self.uid, self.generation)
    }

    /// Begins a step of the change.
    #[must_use]
    pub fn step(&self, name: &'static str) -> Step {
        self.described(Step::of(&self.change(), name))
    }

    /// Begins the root of the change, named by kind and verb (`deployment update`). The root of a later change is linked with that of the change before.
    #[must_use]
    pub fn root(&self, verb: &str) -> Step {
        let root = Step::root(&self.change(), format!("{} {verb}", self.kind.to_lowercase()));
        let root = if self.generation > 1 {
            root.linked("before", &Change::new(self.uid, self.generation - 1).context())
        } else {
            root
        };
        self.described(root)
    }

    /// Adds the attributes that name the object.
    fn described(&self, step: Step) -> Step {
        let step = if self.namespace.is_empty() {
            step
        } else {
            step.attribute("k8s.namespace.name", self.namespace.to_owned())
        };
        let (name, uid) = (self.name.to_owned(), self.uid.to_owned());
        let step = match CONVENTIONS.iter().find(|(kind, ..)| *kind == self.kind) {
            Some((_, of_name, of_uid)) => step.attribute(of_name, name).attribute(of_uid, uid),
            None => step
                .attribute("oarlock.object.kind", self.kind.to_owned())
                .attribute("oarlock.object.name", name)
                .attribute("oarlock.object.uid", uid),
        };
        step.attribute("oarlock.object.generation", self.generation)
    }
}

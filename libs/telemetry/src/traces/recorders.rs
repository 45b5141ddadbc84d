//! Which part of the control plane records which spans of lives. A process that collects the spans of others (`actors/mesh`) accepts of each no more than this.

/// A part of the control plane that records spans of lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorder {
    /// The API server, which also ends changes that are superseded or that nobody has to bring about.
    ApiServer,
    /// A controller, in the life of the object of its key.
    Controller,
    /// The scheduler.
    Scheduler,
    /// The kubelet of the pod's node.
    Kubelet,
}

/// Every step, with the part that records it. Roots are named by kind and verb and are not in the table.
const STEPS: [(&str, Recorder); 14] = [
    (super::step::COMMIT, Recorder::ApiServer),
    (super::step::RECONCILE, Recorder::Controller),
    ("relay", Recorder::Scheduler),
    ("queue", Recorder::Scheduler),
    ("decide", Recorder::Scheduler),
    ("propose", Recorder::Scheduler),
    ("arbiter", Recorder::Scheduler),
    ("bind", Recorder::Scheduler),
    ("admit", Recorder::Kubelet),
    ("volumes", Recorder::Kubelet),
    ("pull", Recorder::Kubelet),
    ("sandbox", Recorder::Kubelet),
    ("start", Recorder::Kubelet),
    ("ready", Recorder::Kubelet),
];

impl Recorder {
    /// Returns the part that records a step; `None` for a name that no step has.
    #[must_use]
    pub fn of(step: &str) -> Option<Self> {
        STEPS.iter().find(|(name, _)| *name == step).map(|(_, recorder)| *recorder)
    }
}

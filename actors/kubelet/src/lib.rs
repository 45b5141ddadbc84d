//! The node agent (kubelet): runs pods as state machines over a container runtime, real or simulated.
//!
//! * [`cri`]: the runtime trait, with the nouns and verbs of CRI v1.
//! * [`Containerd`]: a real runtime over CRI v1, for a node that is a [`Machine`] (`docs/guides/real-nodes.md`).
//! * [`Sim`]: the simulated runtime, controlled by annotations ([`Script`], `docs/guides/simulated-nodes.md`).
//! * [`start`], [`Fleet`]: one actor per node; a thousand nodes of a hundred pods fit into one process.
//! * `environment`, `volumes`, `probes`, `hooks`, `dns`, `hosts`, `security_context`, `resources`: what a container on a real machine needs;
//!   `references` reads the objects that pods refer to, `downward` provides the downward API.
//! * `manifests`: static pods, which run from files and without an API server; `node/statics.rs` shows them in the API.
//! * `trace`: the spans that a kubelet records in the lives of its pods.
//! * [`server`]: the kubelet's own server: logs, exec, attach, port-forward, health, pods, statistics.
//!
//! A pod is a pure state machine (`pod.rs`): the node's actor (`node.rs`) feeds it states from the API and the runtime, and performs one step at a time that
//! the state machine asks for. Nothing is stored on disk: a restarted kubelet recovers its state from the API and the runtime.

mod admit;
mod affinity;
mod cgroups;
mod config;
mod configs;
mod containerd;
mod credentials;
pub mod cri;
mod dns;
mod downward;
mod environment;
mod event_sender;
mod fleet;
mod grpc;
mod hooks;
mod hosts;
mod image_gc;
mod log_rotation;
mod logs;
mod machine;
mod machine_metrics;
mod manifests;
mod measured;
mod metrics;
mod node;
mod pod;
mod pod_error;
mod probes;
mod recorded_status;
mod references;
mod resources;
mod security_context;
pub mod server;
mod sim;
mod template;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod trace;
mod volumes;
mod watch;

pub use config::{Machine, NodeConfig};
pub use containerd::Containerd;
pub use fleet::{Error, Fleet, KubeletHandle, start};
pub use machine::SystemInfo;
pub use sim::{PREFIX, Script, Sim};
pub use template::{ContainerSpec, PullPolicy, RestartPolicy, Template};

/// Kinds of the actors of this crate.
pub static KINDS: &[&oarlock_runtime::ActorKind] = &[&node::NODE, &manifests::MANIFESTS, &server::LISTENER];

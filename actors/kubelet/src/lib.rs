//! The node agent: pods as state machines over a container runtime, real or simulated.
//!
//! * [`cri`]: the runtime trait, with the nouns and verbs of CRI v1.
//! * [`Sim`]: the simulated runtime, steered by annotations ([`Script`], `docs/guides/simulated-nodes.md`).
//! * [`start`], [`Fleet`]: one actor a node; a thousand nodes of a hundred pods fit into one process.
//! * `environment`, `volumes`, `probes`, `hooks`, `dns`, `hosts`, `security_context`, `resources`: what a real container needs besides;
//!   `references` reads what pods name, `downward` what they are told of themselves.
//! * [`KubeletHandle::get`]: what the kubelet's own server answers (logs, health, pods).
//!
//! A pod is a pure state machine (`pod.rs`): the actor (`node.rs`) feeds it what the API and the runtime say, and performs the one step
//! at a time that it asks for. Nothing is kept on disk: a kubelet that starts again learns from the API and the runtime what it did.

mod admit;
mod affinity;
mod config;
pub mod cri;
#[allow(dead_code, unused_imports, reason = "the pod code of the real runtime calls it")]
mod dns;
#[allow(dead_code, unused_imports, reason = "the pod code of the real runtime calls it")]
mod downward;
#[allow(dead_code, unused_imports, reason = "the pod code of the real runtime calls it")]
mod environment;
mod fleet;
#[allow(dead_code, unused_imports, reason = "the pod code of the real runtime calls it")]
mod hooks;
#[allow(dead_code, unused_imports, reason = "the pod code of the real runtime calls it")]
mod hosts;
mod logs;
mod node;
mod pod;
#[allow(dead_code, unused_imports, reason = "the pod code of the real runtime calls it")]
mod probes;
#[allow(dead_code, unused_imports, reason = "the pod code of the real runtime calls it")]
mod references;
#[allow(dead_code, unused_imports, reason = "the pod code of the real runtime calls it")]
mod resources;
#[allow(dead_code, unused_imports, reason = "the pod code of the real runtime calls it")]
mod security_context;
mod seen;
mod sim;
mod tell;
mod template;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[allow(dead_code, unused_imports, reason = "the pod code of the real runtime calls it")]
mod volumes;

pub use config::NodeConfig;
pub use fleet::{Error, Fleet, KubeletHandle, start};
pub use sim::{PREFIX, Script, Sim};
pub use template::{ContainerSpec, PullPolicy, RestartPolicy, Template};

/// The rows of the actors that live here.
pub static KINDS: &[&oarlock_runtime::ActorKind] = &[&node::NODE];

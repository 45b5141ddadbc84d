//! Tools shared by test crates: real programs, ports, faults, workloads and waiting.
//!
//! - [`Cluster`] is a real `oarlock up` in a process of its own, ended by its pid.
//! - [`Kubectl`] runs the real `kubectl` against a cluster and prints a transcript.
//! - [`Etcd`] is a real etcd cluster whose members can be killed and stopped.
//! - [`nats::Nats`] is a real nats-server that can be killed, stopped and restarted.
//! - [`Peer`] is upstream's own control plane; [`Process`] is any other program.
//! - [`http::Http`] is a raw HTTP/1.1 client over TLS, for requests that well-behaved clients never send.
//! - [`otlp::Collector`] receives spans by OTLP.
//! - [`chaos::Chaos`] is a network between programs with faults that a test controls.
//! - [`Disk`] is a slow or failing disk for one running process.
//! - [`workload::Workload`] runs clients; [`history::Recorder`] records what they observe.
//! - [`wait`] waits for conditions, never for a fixed time.
//! - [`port::own`] reserves a port for a program.
//! - [`skipped!`] reports that a test is skipped, and why; `cargo xtask ci` lists all such reports at its end.
//! - [`documents::commands`] reads what documents tell a reader to run.
//! - [`damaged`] produces damaged input for decoders.
//!
//! All functions but those of [`otlp`] block, and panic on failure: the failure is that of the calling test.
#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "used by tests only, where a panic is the answer"
)]

mod binary;
pub mod bodies;
pub mod chaos;
mod cluster;
mod damage;
mod disk;
pub mod documents;
mod etcd;
pub mod history;
pub mod http;
mod kubectl;
pub mod metrics;
pub mod nats;
pub mod otlp;
mod peer;
pub mod port;
mod process;
mod skip;
pub mod wait;
pub mod work;
pub mod workload;

pub use binary::{cargo, example, go, kubectl, oarlock, part, replace_oarlock};
pub use cluster::{Cluster, FLAGS_VARIABLE, read};
pub use damage::{damaged, damaged_text};
pub use disk::Disk;
pub use etcd::{Etcd, Secured};
pub use kubectl::{Following, Kubectl, Ran};
pub use peer::{Peer, programs};
pub use process::Process;
pub use rustix::process::Signal;
pub use skip::skip;

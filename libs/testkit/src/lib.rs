//! What several test crates share: real binaries, ports, temporary directories.
//!
//! - [`Cluster`] is a real `oarlock up` in a process of its own, ended by its own pid.
//! - [`Kubectl`] runs real `kubectl` against it and keeps a transcript.
//! - [`Etcd`] is a real etcd cluster, each member a process that can be killed and stopped.
//! - [`nats::Nats`] is a real nats-server, which can be killed, stopped and started again.
//! - [`Peer`] is upstream's own control plane; [`Process`] any further program.
//! - [`http::Http`] is a raw HTTP/1.1 client over TLS, for what well-behaved clients never send.
//! - [`chaos::Chaos`] is the network between it and others, to be broken.
//! - [`Disk`] is a disk that is slow or fails, under one running process.
//! - [`workload::Workload`] is what its clients do; [`history::Recorder`] writes down what they see.
//! - [`wait`] waits for conditions, never for time.
//! - [`port::own`] is a port that a program keeps.
//! - [`skipped!`] says that a test is left out here, and why; `cargo xtask ci` lists them all in the end.
//! - [`damaged`] is input for decoders that was tampered with.
//!
//! Everything here blocks and panics: a failure is a failure of the test that called.
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
mod etcd;
pub mod history;
pub mod http;
mod kubectl;
pub mod nats;
mod peer;
pub mod port;
mod process;
mod skip;
pub mod wait;
pub mod work;
pub mod workload;

pub use binary::{cargo, example, go, kubectl, oarlock, part, replace_oarlock};
pub use cluster::{Cluster, FLAGS, read};
pub use damage::{damaged, damaged_text};
pub use disk::Disk;
pub use etcd::{Etcd, Secured};
pub use kubectl::{Following, Kubectl, Ran};
pub use peer::{Peer, programs};
pub use process::Process;
pub use rustix::process::Signal;
pub use skip::skip;

//! Test tools for logs and their users: the contract suite, a simulated disk, a faulty log.

pub mod contract;
pub mod driver;
pub mod faulty;
pub mod gated;
pub mod recording;
pub mod rng;
pub mod sim_disk;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Fatal, FatalHook};

/// Returns a fatal hook that records the fault instead of ending the process.
#[must_use]
pub fn recording_hook() -> (FatalHook, Arc<Mutex<Vec<Fatal>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    (Arc::new(move |fatal: &Fatal| into.lock().push(fatal.clone())), seen)
}

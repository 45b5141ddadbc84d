//! Setup of logs, metrics and traces for every service.

pub mod logs;
pub mod metrics;
mod process;
pub mod traces;

pub use logs::init as init_logs;
pub use metrics::{Metrics, registry};

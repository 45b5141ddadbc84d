//! Logs and metrics of every service: one place that sets them up.

pub mod logs;
pub mod metrics;
mod process;

pub use logs::init as init_logs;
pub use metrics::{Metrics, registry};

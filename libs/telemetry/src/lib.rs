//! Setup of logs and metrics for every service.

pub mod logs;
pub mod metrics;
mod process;

pub use logs::init as init_logs;
pub use metrics::{Metrics, registry};

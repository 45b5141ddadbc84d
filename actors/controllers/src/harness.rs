//! The parts that every controller is built from: its row in the table, the environment it is started in, and the shell that runs its reconciles.
//!
//! The harness knows no single controller, so a new controller needs no change here.

mod clients;
mod concurrency;
mod concurrency_flags;
mod env;
mod need;
mod reconciled;
mod row;
mod settings;
mod shell;
mod spread;

pub use clients::Clients;
pub use concurrency::{Concurrency, WorkerCounts};
pub use concurrency_flags::{ConcurrencyFlags, Table};
pub(crate) use env::{Env, must};
pub use need::Requirement;
pub(crate) use need::Supplies;
pub(crate) use reconciled::Reconciled;
pub use row::Row;
pub use settings::Settings;
pub(crate) use shell::Shell;
pub use spread::Spread;
pub(crate) use spread::{CLOUD_UNIT, PARTS};

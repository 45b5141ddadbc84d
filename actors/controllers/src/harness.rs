//! What every controller is made with: its row in the table, the environment it is started in, and the shell that runs its reconciles.
//!
//! Nothing here knows a controller, so that another one comes without a change here.

mod clients;
mod env;
mod need;
mod row;
mod settings;
mod shell;
mod spread;

pub use clients::Clients;
pub(crate) use env::{Env, must};
pub use need::Need;
pub(crate) use need::Supplies;
pub use row::Row;
pub use settings::Settings;
pub(crate) use shell::Shell;
pub use spread::Spread;
pub(crate) use spread::{CLOUD_UNIT, PARTS};

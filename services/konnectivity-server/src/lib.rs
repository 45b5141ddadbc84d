//! The konnectivity-server subcommand: flags and wiring.

mod args;
mod peers;
mod run;
mod sockets;

pub use args::Args;
pub use run::run;

//! The konnectivity-agent subcommand: flags and wiring.

mod args;
mod endpoint;
mod run;

pub use args::Args;
pub use run::run;

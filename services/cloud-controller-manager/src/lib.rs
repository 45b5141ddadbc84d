//! The cloud-controller-manager subcommand: flags and wiring.

mod args;
mod run;

pub use args::Args;
pub use run::run;

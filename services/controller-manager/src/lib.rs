//! The controller-manager subcommand: flags and wiring.

mod args;
mod choice;
mod run;

pub use args::Args;
pub use run::{run, start};

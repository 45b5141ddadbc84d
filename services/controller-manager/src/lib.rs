//! The controller-manager subcommand: flags and wiring.

mod args;
mod run;

pub use args::{Args, ControllerOptions};
pub use run::{run, start};

//! The kubelet subcommand: flags and wiring.

mod args;
mod identity;
mod run;

pub use args::Args;
pub use run::run;

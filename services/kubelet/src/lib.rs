//! The kubelet subcommand: flags and wiring.

mod args;
mod identity;
mod machine;
mod run;
mod serve;

pub use args::Args;
pub use machine::MachineArgs;
pub use run::run;

//! The apiserver subcommand: flags and wiring.

mod args;
pub mod assemble;
mod run;

pub use args::{Args, EtcdOptions, GoingOptions, KubeletOptions, StoreOptions};
pub use run::run;

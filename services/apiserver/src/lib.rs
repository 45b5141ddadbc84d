//! The apiserver subcommand: flags and wiring.

mod args;
pub mod assemble;
mod keys;
mod run;

pub use args::{Args, EtcdOptions, FeatureOptions, GoingOptions, KubeletOptions, ServingOptions, StoreOptions};
pub use keys::{KeysArgs, keys};
pub use run::{join, run};

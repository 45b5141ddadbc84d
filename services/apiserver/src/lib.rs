//! The apiserver subcommand: flags and wiring.

mod args;
pub mod assemble;
mod keys;
mod run;

pub use args::{
    Args, EtcdOptions, FeatureOptions, KubeletOptions, LimitOptions, ServingOptions, ShutdownOptions, StoreOptions,
};
pub use keys::{KeysArgs, PartNodes, SecretOptions, keys};
pub use run::{join, run};

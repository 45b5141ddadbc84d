//! Tests of the engine as a whole; each plugin's tables are in `tests/plugins.rs`.

mod history;
mod messages;
mod nominations;
mod plugins;
mod throughput;
mod upstream;

//! Tests of the scheduler as a whole; each plugin's tables stand in `tests/plugins.rs`.

mod history;
mod messages;
mod nominations;
mod plugins;
mod throughput;
mod upstream;

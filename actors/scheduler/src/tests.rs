//! Tests of the scheduler as a whole; each plugin's tables stand in `tests/plugins.rs`.

mod history;
mod messages;
mod plugins;
mod throughput;
mod upstream;

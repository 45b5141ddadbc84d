//! Tests of the pipeline, on a server in memory.

mod companions;
mod endpoints;
mod lives;
mod order;
mod recorded;
mod services;
mod turns;
mod world;

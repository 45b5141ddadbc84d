//! Tests of the pipeline, on a server in memory.

mod endpoints;
mod order;
mod recorded;
mod services;
mod world;

//! The pipeline of a server in memory.

mod endpoints;
mod order;
mod recorded;
mod world;

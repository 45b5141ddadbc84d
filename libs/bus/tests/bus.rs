//! The bus contract over every transport, as one list of cases, and tests of what a real server adds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr)]

#[path = "bus/cases.rs"]
mod cases;
#[path = "bus/forbidden.rs"]
mod forbidden;
#[path = "bus/garbage.rs"]
mod garbage;
#[path = "bus/memory.rs"]
mod memory;
#[path = "bus/nats.rs"]
mod nats;
#[path = "bus/outage.rs"]
mod outage;
#[path = "bus/routes.rs"]
mod routes;
#[path = "bus/server.rs"]
mod server;
#[path = "bus/speed.rs"]
mod speed;

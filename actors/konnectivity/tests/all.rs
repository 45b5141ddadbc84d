//! The tests of this crate over real sockets, one executable.

#![cfg(test)]

mod admission;
mod agents;
mod faults;
mod forwarding;
mod frontends;
mod support;
mod windows;

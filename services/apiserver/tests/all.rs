//! API servers in the test's process: a server that lags behind another, Leases by which servers discover one another, large requests, and users with few
//! rights.

#![cfg(test)]

mod aside;
mod lagging;
mod leases;
mod rights;

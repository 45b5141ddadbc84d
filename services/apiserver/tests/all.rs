//! API servers in this process: one that lags behind another, how they know one another, what large requests meet, and what a user may who may little.

#![cfg(test)]

mod aside;
mod lagging;
mod leases;
mod rights;

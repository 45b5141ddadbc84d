//! API servers in this process: one that lags behind another, how they know one another, and what large requests meet.

#![cfg(test)]

mod aside;
mod lagging;
mod leases;

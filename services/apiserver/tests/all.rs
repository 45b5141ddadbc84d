//! API servers in this process: one that lags behind another, and how they know one another.

#![cfg(test)]

mod lagging;
mod leases;

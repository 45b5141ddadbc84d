//! API servers in this process: one that lags behind another, and how they know one another; what a user may who may little.

#![cfg(test)]

mod lagging;
mod leases;
mod rights;

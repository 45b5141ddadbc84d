//! The store over logs in memory and on disks, with watchers, under faults and in virtual time.

#![cfg(test)]

mod cold;
mod common;
mod expirer;
mod export;
mod faulty_log;
mod slow_watcher;
mod store;
mod watch_model;

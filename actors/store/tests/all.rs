//! Tests of the store over logs in memory and on disk, with watchers, under faults and in virtual time.

#![cfg(test)]

mod cold;
mod common;
mod expirer;
mod export;
mod faulty_log;
mod slow_watcher;
mod store;
mod watch_model;

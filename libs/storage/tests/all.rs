//! Tests of every log: the contract, faulty disks and power losses, etcd, snapshots.

#![cfg(test)]

mod contract;
mod disk_faults;
mod etcd;
mod power_loss;
mod snapshot;

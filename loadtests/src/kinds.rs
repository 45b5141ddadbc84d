//! The kinds of scenarios, one file each: the fields of a scenario file, and the measurement.

pub(crate) mod append;
pub(crate) mod compose_kill;
pub(crate) mod create;
pub(crate) mod failover;
pub(crate) mod hostile;
pub(crate) mod idle;
pub(crate) mod kept;
pub(crate) mod list;
pub(crate) mod memory;
pub(crate) mod reopen;
pub(crate) mod rollout;
pub(crate) mod schedule;
pub(crate) mod shards;
pub(crate) mod snapshot;
pub(crate) mod start;
pub(crate) mod takeover;
pub(crate) mod tracing;
pub(crate) mod tunnel;
pub(crate) mod tunnel_users;
pub(crate) mod watch;
pub(crate) mod write_path;

//! Controllers of Jobs.

pub(crate) mod job;
pub(crate) mod ttl_after_finished;

//! Virtual-time tests: whole subsystems on one thread with a paused clock, run under many seeds, each (of the long tests one in eight) twice.
//!
//! One module per domain. A failing seed prints the one command that replays it.

#[cfg(test)]
mod crew;
#[cfg(test)]
mod replicas;
#[cfg(test)]
mod runtime;
#[cfg(test)]
mod shards;

//! Real kubectl against a real `oarlock up`: every command with its expected answer.

mod api;
mod crew;
mod daemon_sets;
mod errors;
mod follow;
mod jobs;
mod least;
mod policies;
mod preemption;
mod sets;
mod stateful_sets;

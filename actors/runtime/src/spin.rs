//! A spin: an actor or a task that stays in one poll and so never yields its thread.

use crate::kind::OnSpin;

/// The result of one check: an actor or a task that is still in the same poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spin {
    /// `kind/key` of the actor, or the names of the gate and the task.
    pub(crate) name: String,
    /// How many checks in a row have seen the same poll.
    pub(crate) looks: u32,
    /// The permitted reaction.
    pub(crate) on_spin: OnSpin,
    /// True for an actor, false for a gated task.
    pub(crate) actor: bool,
}

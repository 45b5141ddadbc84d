//! Checks recorded histories of clients against the log: have all clients seen one store?
//!
//! This crate shares no code with the server, so that no error of the server can hide its own consequences. The revision is the witness order, so
//! every rule is one pass over the history (after a sort by time). The format of histories, and how histories are recorded:
//! `docs/operations/histories.md`.
//!
//! | rule | holds when |
//! |---|---|
//! | log | revisions rise, each record names its predecessor, and a call asked for each record of a prefix to which only the clients write |
//! | W1 | an acknowledged write is in the log at its revision with its bytes, one acknowledgement per revision |
//! | W2 | the predecessor of a write is the revision that the write expected |
//! | W3 | if A returned before B began, then A's revision is below B's; a most recent read reflects all earlier writes, and equals the log's state |
//! | W4 | a refusal is justified by some state within its interval, and a refused write is not in the log |
//! | W5 | a write of unknown outcome is in the log at most once |
//! | W6 | a watch equals the log filtered by its selector, in order, once each, through all resumes; 410 only below the floor |
//! | W7 | the pages of a list equal the state at one revision |
//! | 2nd | small histories of one key have some linear order, whatever the log says |
//! | F1 | a write under `unit@epoch` lies in the log between that epoch and the unit's next |
//!
//! Four further judges need no history: [`placement`] judges from a log of nodes and pods whether every pod was placed as its constraints demand;
//! [`workloads`] (C1) judges one state of the API, in which every wanted object must exist and no other; [`effects`] judges the effects on a cloud; [`traces`] judges the
//! spans of objects' lives.

mod claims;
pub mod effects;
pub mod history;
pub mod linearizable;
mod lists;
mod log;
mod opinion;
mod order;
pub mod placement;
mod read;
mod report;
pub mod traces;
mod watches;
pub mod workloads;
mod writes;

pub use history::{History, Place};
pub use read::Malformed;
pub use report::{Report, Rule, Violation};

/// Checks a history against every rule.
#[must_use]
pub fn check(history: &History) -> Report {
    let mut report = Report::default();
    let log = log::Log::new(history, &mut report);
    let written = writes::check(history, &log, &mut report);
    order::check(history, &log, &written, &mut report);
    watches::check(history, &log, &mut report);
    lists::check(history, &log, &mut report);
    opinion::check(history, &log, &written, &mut report);
    claims::check(history, &log, &mut report);
    report
}

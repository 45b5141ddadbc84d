//! Did the clients see one store? Checks recorded histories against the log.
//!
//! Shares no code with the server: an error there must not hide itself here. The revision is the witness order, so every rule is one pass
//! over the history (after a sort by time). What a line holds, and how histories are recorded: `docs/operations/histories.md`.
//!
//! | rule | holds when |
//! |---|---|
//! | log | revisions rise, each record names its predecessor, somebody asked for each record of a prefix that the clients have to themselves |
//! | W1 | an acknowledged write is in the log at its revision with its bytes, one acknowledgement per revision |
//! | W2 | the predecessor of a write is what it expected |
//! | W3 | if A returned before B began, then A's revision is below B's; a most recent read reflects all that, and equals the log's state |
//! | W4 | a refusal is justified by some state within its interval, and what was refused was not written |
//! | W5 | a write of unknown outcome is in the log at most once |
//! | W6 | a watch equals the log filtered by its selector, in order, once each, through all resumes; 410 only below the floor |
//! | W7 | the pages of a list equal the state at one revision |
//! | 2nd | small histories of one key have some linear order at all, whatever the log says |
//! | F1 | a write under `unit@epoch` lies in the log between that epoch and the unit's next |
//!
//! Three more judge something else: [`placement`] a log of nodes and pods, whether every pod was placed as its constraints want; [`workloads`] (C1) one
//! state of the API, whether everything is there that somebody wants, and nothing else; [`effects`] what a cloud has done.

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

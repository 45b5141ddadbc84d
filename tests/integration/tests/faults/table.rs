//! The result of a run for each fault, for `cargo xtask faults` and its table (`docs/operations/faults.md`).

use std::fs::File;
use std::io::Write as _;

use oarlock_check::history::{Asked, Call, Op, Outcome};
use oarlock_check::{History, Report, Rule};
use serde_json::{Map, Value, json};

/// The variable that names the file to which runs append their results.
const FILE: &str = "OARLOCK_FAULTS";

/// A fault that was made. Its effects count until the next fault begins, so that those after its healing count too.
pub(super) struct Bite {
    pub fault: &'static str,
    /// The time on the history's clock.
    pub at: u64,
    /// The time at which the crew had done the work requested meanwhile.
    pub done: Option<u64>,
}

/// A period in which a server cannot know the latest state, and so must refuse the selected calls.
pub(super) struct Silence {
    pub replica: &'static str,
    /// Selects the calls that the server must refuse.
    pub asked: fn(&Call) -> bool,
    pub from: u64,
    pub to: u64,
}

impl Silence {
    /// Checks that the server got such calls and accepted none of them.
    #[track_caller]
    pub(super) fn check(&self, history: &History) {
        let calls = history.calls.iter().map(|call| &call.is).filter(|call| {
            call.replica == self.replica && call.invoke >= self.from && call.returned.is_some_and(|at| at <= self.to)
        });
        let (said, refused): (Vec<_>, Vec<_>) =
            calls.filter(|call| (self.asked)(call)).partition(|call| call.outcome == Outcome::Ok);
        assert!(said.is_empty(), "{} said what it could not know: {said:?}", self.replica);
        assert!(!refused.is_empty(), "{} was not asked: nothing was shown", self.replica);
    }
}

pub(super) fn writes(call: &Call) -> bool {
    !matches!(call.op, Op::Get | Op::List)
}

/// Whether a call is a write, or a read of the most recent state; later pages of a list show the state of the first.
pub(super) fn needs_proof(call: &Call) -> bool {
    writes(call) || call.asked == Asked::Recent && call.list.as_ref().is_none_or(|list| list.page == 0)
}

/// Appends a line for each fault, and one for the judgement, to the file that the variable names.
pub(super) fn append(scene: &str, bites: &[Bite], ended: u64, history: &History, report: &Report) {
    let Some(file) = std::env::var_os(FILE) else { return };
    let mut file = File::options().create(true).append(true).open(file).unwrap();
    let ends = bites.iter().skip(1).map(|next| next.at).chain([ended]);
    for (bite, end) in bites.iter().zip(ends) {
        let within = |at: u64| bite.at <= at && at < end;
        let calls: Vec<&Call> = history.calls.iter().map(|call| &call.is).collect();
        let unknown = calls.iter().filter(|call| within(call.invoke) && call.outcome == Outcome::Unknown).count();
        let answers = |wanted: fn(&Call) -> bool| {
            let answered = calls.iter().filter(|call| call.outcome != Outcome::Unknown && wanted(call));
            longest(bite.at, end, answered.filter_map(|call| call.returned).filter(|at| within(*at)).collect())
        };
        let line = json!({"scene": scene, "fault": bite.fault, "unknown": unknown,
            "calls": calls.iter().filter(|call| within(call.invoke)).count(),
            "writes": answers(writes), "reads": answers(|call| !writes(call)),
            "work": bite.done.map(|done| (done - bite.at) / 1_000_000)});
        writeln!(file, "{line}").unwrap();
    }
    let rules = Rule::ALL.into_iter().map(|rule| (rule.to_string(), json!(report.checked(rule))));
    writeln!(file, "{}", json!({"scene": scene, "rules": Value::Object(rules.collect::<Map<_, _>>())})).unwrap();
}

/// The longest time without any of these moments, in milliseconds.
fn longest(from: u64, to: u64, mut moments: Vec<u64>) -> u64 {
    moments.extend([from, to]);
    moments.sort_unstable();
    moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0) / 1_000_000
}

#[test]
fn the_longest_gap_reaches_to_both_ends() {
    let ms = |moments: &[u64]| moments.iter().map(|at| at * 1_000_000).collect::<Vec<_>>();
    assert_eq!(longest(0, 10_000_000, vec![]), 10);
    assert_eq!(longest(0, 10_000_000, ms(&[4, 5])), 5);
    assert_eq!(longest(0, 10_000_000, ms(&[9, 7])), 7);
}

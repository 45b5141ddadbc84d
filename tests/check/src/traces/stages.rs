//! T4: the times of the stages add up to what a user waited.

use super::{Fault, Span};

/// What a user has waited for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The object's life.
    pub life: u128,
    /// When the user asked for the object; nanoseconds since 1970, by the clock of the spans.
    pub asked: u64,
    /// When the user saw the result.
    pub seen: u64,
    /// The least time that the stages took, as far as the user knows it; nanoseconds.
    pub at_least: u64,
}

/// T4.
#[must_use]
pub fn adds_up(spans: &[Span], waits: &[Wait]) -> Vec<Fault> {
    let judge = |wait: &Wait| {
        let life = wait.life;
        let of_life = || spans.iter().filter(|span| span.trace == life);
        let Some(root) = of_life().find(|span| span.parent.is_none()) else {
            return vec![Fault::new("T4", format!("{life:032x} has no root"))];
        };
        let mut faults = Vec::new();
        if root.began < wait.asked {
            faults.push(Fault::new("T4", format!("{life:032x} began before the user had asked")));
        }
        if root.ended > wait.seen {
            faults.push(Fault::new("T4", format!("{life:032x} ended after the user saw it")));
        }
        let stages: Vec<(u64, u64)> = of_life()
            .filter(|span| span.parent == Some(root.id))
            .map(|span| (span.began.max(root.began), span.ended.min(root.ended)))
            .collect();
        let explained = covered(stages);
        if explained < wait.at_least {
            let waited = wait.seen.saturating_sub(wait.asked);
            let text = format!("{life:032x}: the stages take {explained} ns of {waited}, at least {}", wait.at_least);
            faults.push(Fault::new("T4", text));
        }
        faults
    };
    waits.iter().flat_map(judge).collect()
}

/// Returns the time that intervals cover together; each moment counts once.
fn covered(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let (mut sum, mut until) = (0_u64, 0);
    for (began, ended) in intervals {
        sum = sum.saturating_add(ended.saturating_sub(began.max(until)));
        until = until.max(ended);
    }
    sum
}

//! Sets the conditions of a Job.

use oarlock_meta::Time;

use crate::project::Condition;

/// Sets a condition; returns whether anything changed. A condition that never was True is not added as False.
pub(super) fn ensure(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: &str,
    (reason, message): (&str, &str),
    now: Time,
) -> bool {
    let next = || Condition::new(kind, status, reason, message, now);
    match conditions.iter_mut().find(|condition| condition.kind == kind) {
        Some(condition) => {
            let same = condition.status == status && condition.reason == reason && condition.message == message;
            if !same {
                *condition = next();
            }
            !same
        }
        None if status == "False" => false,
        None => {
            conditions.push(next());
            true
        }
    }
}

//! Building blocks of status rules: counts, and conditions of the common type (`metav1.Condition`).

use std::collections::HashSet;

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::meta_v1::Condition;
use oarlock_schema::{Struct, Value};

use super::each;

/// The longest reason of a condition in bytes.
const MAX_REASON_BYTES: usize = 1024;
/// The longest message of a condition in bytes.
const MAX_MESSAGE_BYTES: usize = 32 * 1024;
/// Upstream `conditionReasonErrMsg`.
const REASON_FORM: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters \
                           or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or \
                           'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Returns the status of an object; an absent status has zero counts.
#[must_use]
pub fn of(object: &Struct) -> Option<&Struct> {
    object.get("status").and_then(Value::as_struct)
}

fn count(status: Option<&Struct>, field: &str) -> Option<i64> {
    status?.get(field)?.as_int()
}

/// Validates counts that must not be negative.
pub fn non_negative(status: Option<&Struct>, fields: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    for field in fields {
        super::non_negative(count(status, field).unwrap_or(0), &path.child(field), errors);
    }
}

/// A count that must not exceed another one.
#[derive(Clone, Copy, Debug)]
pub struct AtMost {
    /// The smaller count.
    pub field: &'static str,
    /// The larger count.
    pub bound: &'static str,
    /// The name of the larger count in the error.
    pub called: &'static str,
}

/// Validates counts that must not exceed others.
pub fn at_most(status: Option<&Struct>, pairs: &[AtMost], path: &Path<'_>, errors: &mut ErrorList) {
    for AtMost { field, bound, called } in pairs {
        let (n, most) = (count(status, field).unwrap_or(0), count(status, bound).unwrap_or(0));
        if n > most {
            let text = format!("cannot be greater than {called}");
            errors.push(FieldError::invalid(&path.child(field), n, text));
        }
    }
}

/// Validates an optional count that, once set, must neither fall nor be removed (upstream `IsDecremented`).
pub fn only_rises(new: &Struct, old: &Struct, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let (now, before) = (count(of(new), field), count(of(old), field));
    if before.is_some_and(|before| now.is_none_or(|now| now < before)) {
        errors.push(FieldError::invalid(&path.child(field), now.unwrap_or(0), "cannot be decremented"));
    }
}

/// Validates conditions of the common type in `status.conditions` (upstream `metav1/validation.ValidateConditions`).
pub fn conditions(status: Option<&Struct>, path: &Path<'_>, errors: &mut ErrorList) {
    list(status.and_then(|status| status.get("conditions")).map_or(&[], Value::items), path, errors);
}

/// Validates conditions of the common type, each type once.
pub fn list(conditions: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let at = path.index(i);
        let condition = Condition::from_option(condition.as_struct());
        if !seen.insert(condition.type_()) {
            errors.push(FieldError::duplicate(&at.child("type"), condition.type_()));
        }
        one(condition, &at, errors);
    }
}

fn one(condition: Condition<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    super::qualified(condition.type_(), &path.child("type"), errors);
    super::one_of(condition.status(), &["False", "True", "Unknown"], &path.child("status"), errors);
    if condition.observed_generation() < 0 {
        let text = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(&path.child("observedGeneration"), condition.observed_generation(), text));
    }
    let since = condition.node().and_then(|node| node.get("lastTransitionTime")).and_then(Value::as_str);
    if since.unwrap_or("").is_empty() {
        errors.push(FieldError::required(&path.child("lastTransitionTime"), ""));
    }
    let (reason, at) = (condition.reason(), path.child("reason"));
    if reason.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        let wrong = if is_reason(reason) { Vec::new() } else { vec![REASON_FORM.to_owned()] };
        each(wrong, reason, &at, errors);
        if reason.len() > MAX_REASON_BYTES {
            errors.push(FieldError::too_long(&at, MAX_REASON_BYTES));
        }
    }
    if condition.message().len() > MAX_MESSAGE_BYTES {
        errors.push(FieldError::too_long(&path.child("message"), MAX_MESSAGE_BYTES));
    }
}

fn is_reason(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && text.bytes().last().is_some_and(word)
        && text.bytes().all(|b| word(b) || b == b',' || b == b':')
}

#[cfg(test)]
mod tests {
    use super::is_reason;

    #[test]
    fn a_reason_is_one_word_that_begins_with_a_letter() {
        for good in ["A", "my_name", "ReasonA,ReasonB", "A:b", "A_"] {
            assert!(is_reason(good), "{good}");
        }
        for bad in ["", "_a", "1a", "a b", "a-", "a:", "a,"] {
            assert!(!is_reason(bad), "{bad}");
        }
    }
}

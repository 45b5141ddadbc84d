//! Rules common to all workloads: a selector that matches a template of pods that always restart.

use std::num::IntErrorKind::{NegOverflow, PosOverflow};
use std::num::ParseIntError;

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::PodTemplateSpec;
use oarlock_schema::views::meta_v1::LabelSelector;
use oarlock_schema::{IntOrStr, Value};

use crate::rules::{each, formats, non_negative, one_of, selector, show};

/// Validates selector and template; `empty` names the kind in the message about an empty selector.
pub(super) fn selection(
    chosen: Option<LabelSelector<'_>>,
    template: PodTemplateSpec<'_>,
    empty: &str,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let at = path.child("selector");
    match chosen {
        None => errors.push(FieldError::required(&at, "")),
        Some(chosen) if selector::is_empty(chosen) => {
            let text = format!("empty selector is invalid for {empty}");
            errors.push(FieldError::invalid(&at, Raw(chosen.node().map(show::node).unwrap_or_default()), text));
        }
        Some(_) => {}
    }
    matching(chosen, template, path, errors);
}

/// Validates that the selector is well formed and matches the template's labels.
pub(crate) fn matching(
    chosen: Option<LabelSelector<'_>>,
    template: PodTemplateSpec<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let empty = chosen.is_some_and(selector::is_empty);
    if let Some(chosen) = chosen.filter(|c| !selector::well_formed(*c)) {
        let shown = Raw(chosen.node().map(show::node).unwrap_or_default());
        errors.push(FieldError::invalid(&path.child("selector"), shown, "invalid label selector"));
        return;
    }
    if !empty && !chosen.is_some_and(|c| selector::matches(c, template.metadata().labels())) {
        let at = path.child("template");
        let at = at.child("metadata");
        let shown = show::value(template.metadata().node().and_then(|m| m.get("labels")));
        errors.push(FieldError::invalid(&at.child("labels"), shown, "`selector` does not match template `labels`"));
    }
}

/// Validates that the pods of the template always restart; `kind` names the workload in the message.
pub(crate) fn endless(template: PodTemplateSpec<'_>, kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("template");
    let at = at.child("spec");
    one_of(template.spec().restart_policy(), &["Always"], &at.child("restartPolicy"), errors);
    if template.spec().active_deadline_seconds().is_some() {
        let text = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(&at.child("activeDeadlineSeconds"), text));
    }
}

/// Validates a number of pods or a percentage of them; with `whole` the percentage is at most 100 %.
pub(crate) fn count_or_share(value: Option<IntOrStr<'_>>, whole: bool, path: &Path<'_>, errors: &mut ErrorList) {
    match value {
        Some(IntOrStr::Int(n)) => non_negative(n, path, errors),
        Some(IntOrStr::Str(text)) => {
            each(formats::percent(text), text, path, errors);
            if whole && share(text).is_some_and(|n| n > 100) {
                errors.push(FieldError::invalid(path, text, "must not be greater than 100%"));
            }
        }
        None => {}
    }
}

fn share(text: &str) -> Option<i64> {
    text.strip_suffix('%')?.parse().ok()
}

/// Whether a number of pods or a percentage of them is zero. As upstream, an invalid percentage counts as the number that its text is, or as zero.
pub(super) fn is_nothing(value: Option<IntOrStr<'_>>) -> bool {
    match value {
        Some(IntOrStr::Int(n)) => n == 0,
        Some(IntOrStr::Str(text)) => {
            let number = text.strip_suffix('%').filter(|_| formats::percent(text).is_empty()).unwrap_or(text);
            let too_large = |error: &ParseIntError| matches!(error.kind(), PosOverflow | NegOverflow);
            number.parse::<i64>().map_or_else(|error| !too_large(&error), |number| number == 0)
        }
        None => true,
    }
}

/// Returns a number or percentage in the form of error messages.
pub(super) fn shown(node: Option<&Value>) -> show::FormattedValue {
    show::value(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each answer is a live v1.35.0 server's.
    #[test]
    fn a_text_that_is_no_percentage_counts_as_the_number_that_it_is() {
        for (text, nothing) in [
            ("0%", true),
            ("25%", false),
            ("0", true),
            ("1", false),
            ("+1", false),
            ("-1", false),
            ("99999999999999999999", false),
            (" 1", true),
            ("1_0", true),
            ("x%", true),
            ("5%%", true),
            ("", true),
        ] {
            assert_eq!(is_nothing(Some(IntOrStr::Str(text))), nothing, "{text:?}");
        }
    }
}

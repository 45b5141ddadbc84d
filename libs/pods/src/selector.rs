//! Converts label selectors of the API, such as those that choose pods, into selectors that can match.

use oarlock_meta::selector::{LabelRequirement, Operator};
use oarlock_meta::{LabelSelector, Path};
use oarlock_schema::views::meta_v1;

/// Reads a selector (upstream `metav1.LabelSelectorAsSelector`). An absent or invalid selector gives `None` and selects nothing; an empty one selects
/// everything.
#[must_use]
pub fn read(view: Option<meta_v1::LabelSelector<'_>>) -> Option<LabelSelector> {
    let view = view?;
    let mut all = Vec::new();
    for (key, value) in view.match_labels().iter() {
        all.push(LabelRequirement::new(key, Operator::Equals, [value], &Path::ROOT).ok()?);
    }
    for one in view.match_expressions().iter() {
        let operator = match one.operator() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return None,
        };
        all.push(LabelRequirement::new(one.key(), operator, one.values().iter(), &Path::ROOT).ok()?);
    }
    Some(LabelSelector::new(all))
}

//! Text helpers that several printers share.

use oarlock_meta::selector::{LabelRequirement, Operator};
use oarlock_meta::{LabelSelector, Path};
use oarlock_schema::views::core_v1::Container;
use oarlock_schema::views::meta_v1::LabelSelector as SelectorView;
use oarlock_schema::views::{List, Map};

pub(super) const NONE: &str = "<none>";
pub(super) const UNSET: &str = "<unset>";

/// Returns `text`, or `other` if `text` is empty.
pub(super) fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// Joins texts.
pub(super) fn join<'a>(texts: impl IntoIterator<Item = &'a str>, separator: &str) -> String {
    texts.into_iter().collect::<Vec<_>>().join(separator)
}

/// Returns names and images of containers (upstream `layoutContainerCells`).
pub(super) fn containers(list: List<'_, Container<'_>>) -> (String, String) {
    (join(list.iter().map(|c| c.name()), ","), join(list.iter().map(|c| c.image()), ","))
}

/// Formats a plain map of labels (upstream `labels.FormatLabels`).
pub(super) fn labels(map: Map<'_, &str>) -> String {
    let text = map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
    if text.is_empty() { NONE.to_owned() } else { text }
}

/// Formats a selector; the selectors of nothing and of everything are both `<none>` (upstream `FormatLabelSelector`).
pub(super) fn selector(view: Option<SelectorView<'_>>) -> String {
    match selector_text(view) {
        Some(text) if text.is_empty() => NONE.to_owned(),
        Some(text) => text,
        None => "<error>".to_owned(),
    }
}

/// Returns a selector's text; `None` for an invalid selector. An absent selector selects nothing, and its text is empty too.
pub(super) fn selector_text(view: Option<SelectorView<'_>>) -> Option<String> {
    let Some(view) = view else { return Some(String::new()) };
    let at = Path::new("selector");
    let mut requirements = Vec::new();
    let require = |key: &str, operator, values: Vec<&str>| LabelRequirement::new(key, operator, values, &at).ok();
    for (key, value) in view.match_labels().iter() {
        requirements.push(require(key, Operator::Equals, vec![value])?);
    }
    for one in view.match_expressions().iter() {
        let operator = match one.operator() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return None,
        };
        requirements.push(require(one.key(), operator, one.values().iter().collect())?);
    }
    Some(LabelSelector::new(requirements).to_string())
}

/// Returns the first three of some texts and the number of further ones (upstream `listWithMoreString`).
pub(super) fn first_three(texts: &[String]) -> String {
    const MAX_SHOWN: usize = 3;
    let shown = texts.get(..MAX_SHOWN.min(texts.len())).unwrap_or_default().join(",");
    match texts.len().checked_sub(MAX_SHOWN) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ if shown.is_empty() => UNSET.to_owned(),
        _ => shown,
    }
}

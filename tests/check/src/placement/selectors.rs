//! Label selectors. They are evaluated directly on the JSON, because a log is judged once.

use std::collections::BTreeMap;

use serde_json::Value;

pub(super) type Labels = BTreeMap<String, String>;

pub(super) static NULL: Value = Value::Null;

/// The value at a JSON pointer; null if absent.
pub(super) fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&NULL)
}

/// Returns the text of a field, empty if absent.
pub(super) fn text_of(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Whether labels satisfy one requirement of `matchExpressions`.
fn holds(requirement: &Value, labels: &Labels) -> bool {
    let key = at(requirement, "/key").as_str().unwrap_or_default();
    let (label, mut values) = (labels.get(key), texts(at(requirement, "/values")));
    let number = |text: &str| text.parse::<i64>().ok();
    match at(requirement, "/operator").as_str().unwrap_or_default() {
        "In" => label.is_some_and(|label| values.any(|value| value == label)),
        "NotIn" => label.is_none_or(|label| values.all(|value| value != label)),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => label.and_then(|label| number(label)) > values.next().and_then(number) && label.is_some(),
        "Lt" => {
            let (label, bound) = (label.and_then(|label| number(label)), values.next().and_then(number));
            label.zip(bound).is_some_and(|(label, bound)| label < bound)
        }
        _ => false,
    }
}

/// Whether a LabelSelector matches labels; an absent selector matches no pod.
pub(super) fn selects(selector: &Value, labels: &Labels) -> bool {
    let Some(fields) = selector.as_object() else { return false };
    let equal = fields.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut expressions = fields.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    equal.into_iter().all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
        && expressions.all(|requirement| holds(requirement, labels))
}

/// Whether labels agree in `matchLabelKeys`, and differ in `mismatchLabelKeys`, with those of the pod that has the term.
pub(super) fn keys_agree(term: &Value, own: &Labels, labels: &Labels) -> bool {
    let present = |keys: &'static str| texts(term.get(keys).unwrap_or(&NULL)).filter_map(|key| own.get_key_value(key));
    present("matchLabelKeys").all(|(key, value)| labels.get(key) == Some(value))
        && present("mismatchLabelKeys").all(|(key, value)| labels.get(key) != Some(value))
}

/// Whether a required node affinity lets a pod onto a node.
pub(super) fn node_terms(terms: &Value, name: &str, labels: &Labels) -> bool {
    let named = |field: &Value| {
        let mut values = texts(at(field, "/values"));
        match at(field, "/operator").as_str() {
            Some("In") => values.any(|value| value == name),
            Some("NotIn") => values.all(|value| value != name),
            _ => false,
        }
    };
    let list = |term: &Value, field: &str| term.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    terms.as_array().into_iter().flatten().any(|term| {
        let (expressions, fields) = (list(term, "matchExpressions"), list(term, "matchFields"));
        !(expressions.is_empty() && fields.is_empty())
            && expressions.iter().all(|requirement| holds(requirement, labels))
            && fields.iter().all(named)
    })
}

/// Whether the tolerations tolerate a taint.
pub(super) fn tolerates(tolerations: &Value, key: &str, value: &str, effect: &str) -> bool {
    tolerations.as_array().into_iter().flatten().any(|toleration| {
        let (its_key, its_effect) = (text_of(toleration, "key"), text_of(toleration, "effect"));
        let exists = text_of(toleration, "operator") == "Exists";
        (its_effect.is_empty() || its_effect == effect)
            && ((its_key.is_empty() && exists) || its_key == key)
            && (exists || text_of(toleration, "value") == value)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Labels, keys_agree, node_terms, selects, tolerates};

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn selectors_mean_whom_they_say() {
        let web = labels(&[("app", "web"), ("n", "5")]);
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, means) in [
            (json!(null), false),
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (expression("app", "In", &["db", "web"]), true),
            (expression("app", "NotIn", &["web"]), false),
            (expression("none", "NotIn", &["web"]), true),
            (expression("app", "Exists", &[]), true),
            (expression("app", "DoesNotExist", &[]), false),
            (expression("n", "Gt", &["4"]), true),
            (expression("n", "Gt", &["5"]), false),
            (expression("n", "Lt", &["6"]), true),
            (expression("app", "Lt", &["6"]), false),
            (expression("none", "Gt", &["4"]), false),
        ] {
            assert_eq!(selects(&selector, &web), means, "{selector}");
        }
        let term = json!({"matchLabelKeys": ["app"], "mismatchLabelKeys": ["n"]});
        assert!(keys_agree(&term, &web, &labels(&[("app", "web")])));
        assert!(!keys_agree(&term, &web, &web));
        assert!(!keys_agree(&term, &web, &labels(&[])));
    }

    #[test]
    fn nodes_are_chosen_by_labels_and_name() {
        let east = labels(&[("zone", "east")]);
        let zone = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}]);
        let name = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]);
        assert!(node_terms(&zone, "n2", &east) && node_terms(&name, "n1", &east) && !node_terms(&name, "n2", &east));
        assert!(!node_terms(&json!([]), "n1", &east) && !node_terms(&json!([{}]), "n1", &east));
        let bears = |toleration| tolerates(&json!([toleration]), "k", "v", "NoSchedule");
        assert!(bears(json!({"operator": "Exists"})) && bears(json!({"key": "k", "value": "v"})));
        assert!(bears(json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})));
        assert!(!bears(json!({"key": "k"})) && !bears(json!({"key": "k", "value": "v", "effect": "NoExecute"})));
        assert!(!tolerates(&json!(null), "k", "v", "NoSchedule"));
    }
}

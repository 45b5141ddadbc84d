//! Selectors of access reviews: a raw text, or a list of requirements.
//!
//! Requirements that cannot be parsed are dropped and the rest is evaluated. Fewer requirements select more objects, so the review covers at least
//! the objects that the caller meant (KEP-4601).

use oarlock_meta::selector::{FieldRequirement, LabelRequirement, Operator};
use oarlock_meta::{ErrorList, FieldError, FieldSelector, LabelSelector, Path, names};
use oarlock_schema::views::authorization_v1::{FieldSelectorAttributes, LabelSelectorAttributes, ResourceAttributes};

const SPEC: &str = "spec.resourceAttributes";

/// Validates the selectors (upstream `validateResourceAttributes`). Unknown operators pass: a later version may have them.
pub(super) fn check(asked: ResourceAttributes<'_>, errors: &mut ErrorList) {
    let spec = Path::new(SPEC);
    if let Some(fields) = asked.field_selector() {
        let path = spec.child("fieldSelector");
        either(fields.raw_selector(), fields.requirements().len(), &path, errors);
        let list = path.child("requirements");
        for (i, one) in fields.requirements().iter().enumerate() {
            let at = list.index(i);
            if one.key().is_empty() {
                errors.push(FieldError::required(&at.child("key"), "must be specified"));
            }
            values(one.operator(), one.values().len(), &at, errors);
        }
    }
    if let Some(labels) = asked.label_selector() {
        let path = spec.child("labelSelector");
        either(labels.raw_selector(), labels.requirements().len(), &path, errors);
        let list = path.child("requirements");
        for (i, one) in labels.requirements().iter().enumerate() {
            let at = list.index(i);
            values(one.operator(), one.values().len(), &at, errors);
            oarlock_apis::rules::qualified(one.key(), &at.child("key"), errors);
            for (j, value) in one.values().iter().enumerate() {
                let at = at.child("values");
                oarlock_apis::rules::each(names::label_value_errors(value), value, &at.index(j), errors);
            }
        }
    }
}

fn either(raw: &str, requirements: usize, path: &Path<'_>, errors: &mut ErrorList) {
    if !raw.is_empty() && requirements > 0 {
        let why = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid(&path.child("rawSelector"), raw, why));
    }
    if raw.is_empty() && requirements == 0 {
        let why = format!("when {path} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(&path.child("requirements"), why));
    }
}

fn values(operator: &str, count: usize, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("values");
    match operator {
        "In" | "NotIn" if count == 0 => {
            errors.push(FieldError::required(&at, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&at, why));
        }
        _ => {}
    }
}

/// The selectors of a review, as far as they could be parsed.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    /// Field selector of the reviewed request.
    pub(super) fields: Option<FieldSelector>,
    /// Label selector of the reviewed request.
    pub(super) labels: Option<LabelSelector>,
    /// Parse errors, in upstream's words.
    pub(super) error: String,
}

/// Parses the selectors of a review that has passed [`check`].
pub(super) fn read(asked: ResourceAttributes<'_>) -> Selectors {
    let (fields, some_fields) = asked.field_selector().map_or((None, None), read_fields);
    let (labels, some_labels) = asked.label_selector().map_or((None, None), read_labels);
    let unread = [("fieldSelector", some_fields), ("labelSelector", some_labels)];
    let texts = unread.iter().filter_map(|(name, partly)| {
        let how = if (*partly)? { "partially ignored" } else { "ignored" };
        Some(format!("{SPEC}.{name} {how} due to parse error"))
    });
    let error = texts.collect::<Vec<_>>().join("; ");
    Selectors { fields, labels, error }
}

/// `None` when the whole selector was parsed; otherwise whether a part of it was.
type Unread = Option<bool>;

fn unread(all: bool, some: bool) -> Unread {
    (!all).then_some(some)
}

fn read_fields(asked: FieldSelectorAttributes<'_>) -> (Option<FieldSelector>, Unread) {
    if !asked.raw_selector().is_empty() {
        let parsed = FieldSelector::parse(asked.raw_selector()).ok();
        let all = parsed.is_some();
        return (parsed, unread(all, false));
    }
    let mut read = Vec::new();
    for one in asked.requirements().iter() {
        let equal = one.operator() == "In";
        if let (true, 1, Some(value)) = (equal || one.operator() == "NotIn", one.values().len(), one.values().get(0)) {
            read.push(FieldRequirement { field: one.key().into(), value: value.into(), equal });
        }
    }
    let (all, some) = (read.len() == asked.requirements().len(), !read.is_empty());
    (some.then(|| FieldSelector::new(read)), unread(all, some))
}

fn read_labels(asked: LabelSelectorAttributes<'_>) -> (Option<LabelSelector>, Unread) {
    if !asked.raw_selector().is_empty() {
        let parsed = LabelSelector::parse(asked.raw_selector()).ok();
        let all = parsed.is_some();
        return (parsed, unread(all, false));
    }
    let mut read = Vec::new();
    for one in asked.requirements().iter() {
        let operator = match one.operator() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => continue,
        };
        read.extend(LabelRequirement::new(one.key(), operator, one.values().iter(), &Path::ROOT));
    }
    let (all, some) = (read.len() == asked.requirements().len(), !read.is_empty());
    (some.then(|| LabelSelector::new(read)), unread(all, some))
}

#[cfg(test)]
mod tests {
    use oarlock_codec::{Mode, json};
    use oarlock_schema::views::View as _;
    use oarlock_schema::{Obj, type_named};

    use super::*;

    fn attributes(selectors: &str) -> Obj {
        let text = format!(r#"{{"spec":{{"resourceAttributes":{{{selectors}}}}}}}"#);
        let ty = type_named("authorization/v1.SelfSubjectAccessReview").unwrap();
        json::decode(text.as_bytes(), ty, Mode::Strict).unwrap().value
    }

    fn view(obj: &Obj) -> ResourceAttributes<'_> {
        ResourceAttributes::of(obj.at(&["spec", "resourceAttributes"]).unwrap().as_struct().unwrap()).unwrap()
    }

    fn wrong(selectors: &str) -> Vec<String> {
        let (obj, mut errors) = (attributes(selectors), ErrorList::new());
        check(view(&obj), &mut errors);
        errors.iter().map(|e| format!("{}: {}", e.field, e.body())).collect()
    }

    fn both(kind: &str) -> String {
        format!(r#""{kind}":{{"rawSelector":"a=b","requirements":[{{"key":"a","operator":"In","values":["b"]}}]}}"#)
    }

    /// Each expected result was recorded from upstream.
    #[test]
    fn a_selector_is_a_text_or_requirements() {
        for kind in ["fieldSelector", "labelSelector"] {
            let why = "Invalid value: \"a=b\": may not specified at the same time as requirements";
            assert_eq!(wrong(&both(kind)), [format!("{SPEC}.{kind}.rawSelector: {why}")]);
            let why =
                format!("Required value: when {SPEC}.{kind} is specified, requirements or rawSelector is required");
            assert_eq!(wrong(&format!(r#""{kind}":{{}}"#)), [format!("{SPEC}.{kind}.requirements: {why}")]);
            let one = |operator: &str, values: &str| {
                wrong(&format!(
                    r#""{kind}":{{"requirements":[{{"key":"a","operator":"{operator}","values":{values}}}]}}"#
                ))
            };
            let at = format!("{SPEC}.{kind}.requirements[0].values");
            let why = "Required value: must be specified when `operator` is 'In' or 'NotIn'";
            assert_eq!(one("In", "[]"), [format!("{at}: {why}")]);
            let why = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            assert_eq!(one("Exists", r#"["b"]"#), [format!("{at}: {why}")]);
            assert_eq!(one("Later", r#"["b"]"#), Vec::<String>::new());
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_told() {
        let error = |selectors: &str| read(view(&attributes(selectors))).error;
        let label = format!("{SPEC}.labelSelector ignored due to parse error");
        assert_eq!(error(r#""labelSelector":{"rawSelector":"a in (b"}"#), label);
        assert_eq!(
            error(r#""labelSelector":{"rawSelector":"a in (b"},"fieldSelector":{"rawSelector":"a"}"#),
            format!("{SPEC}.fieldSelector ignored due to parse error; {label}")
        );
        let partly = attributes(
            r#""fieldSelector":{"requirements":[{"key":"a","operator":"Exists"},{"key":"c","operator":"In","values":["d"]}]}"#,
        );
        let selectors = read(view(&partly));
        assert_eq!(selectors.error, format!("{SPEC}.fieldSelector partially ignored due to parse error"));
        assert_eq!(selectors.fields.unwrap().exact("c"), Some("d"));
        assert_eq!(error(r#""labelSelector":{"rawSelector":"a=b"},"fieldSelector":{"rawSelector":"a=b"}"#), "");
    }
}

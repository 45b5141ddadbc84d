//! Printers of webhook configurations and admission policies.

use oarlock_schema::Value;
use oarlock_schema::views::admissionregistration_v1::{
    MutatingWebhookConfiguration, ParamRef, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use oarlock_schema::views::meta_v1::LabelSelector;

use super::text::{UNSET, join};
use super::{Now, cells};

type Cells = Vec<Value>;

pub(super) fn mutating(obj: MutatingWebhookConfiguration<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    cells![meta.name(), count(obj.webhooks().len()), now.since(meta.creation_timestamp())]
}

pub(super) fn validating(obj: ValidatingWebhookConfiguration<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    cells![meta.name(), count(obj.webhooks().len()), now.since(meta.creation_timestamp())]
}

pub(super) fn policy(obj: ValidatingAdmissionPolicy<'_>, now: Now) -> Cells {
    let (meta, spec) = (obj.metadata(), obj.spec());
    let kind = spec.param_kind().map(|kind| format!("{}/{}", kind.api_version(), kind.kind()));
    let kind = kind.unwrap_or_else(|| UNSET.to_owned());
    cells![meta.name(), count(spec.validations().len()), kind, now.since(meta.creation_timestamp())]
}

pub(super) fn policy_binding(obj: ValidatingAdmissionPolicyBinding<'_>, now: Now) -> Cells {
    let (meta, spec) = (obj.metadata(), obj.spec());
    let param = spec.param_ref().map_or_else(|| UNSET.to_owned(), param);
    cells![meta.name(), spec.policy_name(), param, now.since(meta.creation_timestamp())]
}

fn param(param: ParamRef<'_>) -> String {
    match (param.name(), param.namespace(), param.selector()) {
        ("", _, Some(selector)) => go_text(selector),
        ("", _, None) => UNSET.to_owned(),
        // The printer does not know whether the parameter is namespaced.
        (name, "", _) => format!("*/{name}"),
        (name, namespace, _) => format!("{namespace}/{name}"),
    }
}

/// Formats a selector as Go's generated `String` does.
fn go_text(selector: LabelSelector<'_>) -> String {
    let labels: String = selector.match_labels().iter().map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions: String = selector
        .match_expressions()
        .iter()
        .map(|one| {
            let values = join(one.values().iter(), " ");
            format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", one.key(), one.operator())
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn count(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

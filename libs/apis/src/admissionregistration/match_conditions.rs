//! Validates the match conditions of policies and webhooks, whose expressions must compile (upstream `validateMatchConditions`).

use std::collections::HashSet;

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::admissionregistration_v1::MatchCondition;
use oarlock_schema::{Struct, Value};

use super::expressions::{self, ResultType};
use crate::rules::qualified;

/// The field of policies and webhooks that holds their match conditions.
pub(super) const FIELD: &str = "matchConditions";
/// The most match conditions of a policy or webhook.
const MAX: usize = 64;

/// Validates the match conditions of `owner`, a policy's specification or a webhook. `params` says whether their expressions may use a policy's parameters.
/// A policy's own variables are no part of the check, although evaluation offers them.
pub(super) fn validate(owner: &Struct, params: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let conditions = owner.get(FIELD).map_or(&[][..], Value::items);
    if conditions.is_empty() {
        return;
    }
    let path = path.child(FIELD);
    if conditions.len() > MAX {
        errors.push(FieldError::too_many(&path, conditions.len(), MAX));
    }
    let env = expressions::environment(params, true);
    let mut seen = HashSet::new();
    for (i, condition) in conditions.iter().filter_map(Value::as_struct).map(MatchCondition::new).enumerate() {
        let (here, text) = (path.index(i), condition.expression().trim());
        let at = here.child("expression");
        if text.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if let Err(why) = expressions::compile(text, &env, ResultType::Bool) {
            errors.push(FieldError::invalid(&at, text, why));
        }
        let (name, at) = (condition.name(), here.child("name"));
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        qualified(name, &at, errors);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at, name));
        }
    }
}

/// Validates the match conditions of a webhook.
pub(super) fn of_webhook(webhook: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    validate(webhook, false, path, errors);
}

/// Validates the match conditions of all webhooks of a configuration if one of them changes: they may have been stored when the rules were less strict.
pub(super) fn of_changed_webhooks(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let (new, old) = (webhooks(new), webhooks(old));
    let unchanged = |(new, old): (&&Struct, &&Struct)| new.get(FIELD) == old.get(FIELD);
    if new.len() == old.len() && new.iter().zip(&old).all(unchanged) {
        return;
    }
    let path = path.child("webhooks");
    for (i, webhook) in new.into_iter().enumerate() {
        of_webhook(webhook, &path.index(i), errors);
    }
}

fn webhooks(configuration: &Struct) -> Vec<&Struct> {
    configuration.get("webhooks").map_or(&[][..], Value::items).iter().filter_map(Value::as_struct).collect()
}

//! Validates ValidatingAdmissionPolicies, whose expressions must compile (upstream `validateValidatingAdmissionPolicySpec`).

use std::collections::HashSet;

use oarlock_cel::Env;
use oarlock_meta::{ErrorList, FieldError, Path, names};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::admissionregistration_v1 as v1;

use super::expressions::{self, ResultType};
use super::match_conditions;
use crate::rules::{each, formats, one_of, qualified, required};

/// The most audit annotations of a policy.
const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// The longest expression of an audit annotation, in bytes.
const MAX_VALUE_EXPRESSION_BYTES: usize = 5 * 1024;
/// The reasons that a policy may give for a refusal.
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// Validates a policy, except for parts that have rules of their own.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let policy = v1::ValidatingAdmissionPolicy::new(node);
    let (spec, here) = (policy.spec(), path.child("spec"));
    match spec.match_constraints() {
        None => errors.push(FieldError::required(&here.child("matchConstraints"), "")),
        Some(constraints) if constraints.resource_rules().is_empty() => {
            errors.push(FieldError::required(&here.child("matchConstraints").child("resourceRules"), ""));
        }
        Some(_) => {}
    }
    let params = spec.param_kind().is_some();
    if let Some(spec) = spec.node() {
        match_conditions::validate(spec, params, &here, errors);
    }
    let mut env = expressions::environment(params, true);
    let mut messages = expressions::environment(params, false);
    if !spec.variables().is_empty() {
        (env, messages) = (expressions::with_variables(env), expressions::with_variables(messages));
    }
    for (i, variable) in spec.variables().iter().enumerate() {
        declare(variable, [&mut env, &mut messages], &here.child("variables").index(i), errors);
    }
    if spec.validations().is_empty() && spec.audit_annotations().is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.push(FieldError::required(&here.child("validations"), why));
        errors.push(FieldError::required(&here.child("auditAnnotations"), why));
    }
    for (i, validation) in spec.validations().iter().enumerate() {
        check(validation, &env, &messages, &here.child("validations").index(i), errors);
    }
    annotations(policy.metadata().name(), spec, &env, &here.child("auditAnnotations"), errors);
}

fn expression(text: &str, env: &Env, gives: ResultType, path: &Path<'_>, errors: &mut ErrorList) {
    if let Err(why) = expressions::compile(text, env, gives) {
        errors.push(FieldError::invalid(path, text, why));
    }
}

/// Validates a variable and declares it for the expressions after it.
fn declare(variable: v1::Variable<'_>, envs: [&mut Env; 2], path: &Path<'_>, errors: &mut ErrorList) {
    let (name, text) = (variable.name(), variable.expression());
    if name.trim().is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name is not specified"));
    } else if !oarlock_cel::is_identifier(name) {
        errors.push(FieldError::invalid(&path.child("name"), name, "must be a valid CEL identifier"));
    }
    if text.trim().is_empty() {
        errors.push(FieldError::required(&path.child("expression"), "expression is not specified"));
        return;
    }
    let [env, messages] = envs;
    match expressions::compile(text, env, ResultType::Anything) {
        Ok(program) => {
            for env in [env, messages] {
                env.declare(expressions::variable(name), program.result().clone());
            }
        }
        Err(why) => errors.push(FieldError::invalid(&path.child("expression"), text, why)),
    }
}

fn check(validation: v1::Validation<'_>, env: &Env, messages: &Env, path: &Path<'_>, errors: &mut ErrorList) {
    let (text, at) = (validation.expression(), path.child("expression"));
    if text.trim().is_empty() {
        errors.push(FieldError::required(&at, "expression is not specified"));
    } else {
        expression(text, env, ResultType::Bool, &at, errors);
    }
    let (text, at) = (validation.message_expression(), path.child("messageExpression"));
    if !text.is_empty() && text.trim().is_empty() {
        errors.push(FieldError::invalid(&at, text, "must be non-empty if specified"));
    } else if !text.is_empty() {
        expression(text, messages, ResultType::Text, &at, errors);
    }
    let (text, at) = (validation.message(), path.child("message"));
    if !text.is_empty() && text.trim().is_empty() {
        errors.push(FieldError::invalid(&at, text, "must be non-empty if specified"));
    } else if text.trim().contains(['\n', '\r']) {
        errors.push(FieldError::invalid(&at, text, "must not contain line breaks"));
    }
    if let Some(reason) = validation.reason() {
        one_of(reason, REASONS, &path.child("reason"), errors);
    }
}

fn annotations(
    name: &str,
    spec: v1::ValidatingAdmissionPolicySpec<'_>,
    env: &Env,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let all = spec.audit_annotations();
    if all.len() > MAX_AUDIT_ANNOTATIONS {
        let shown = oarlock_meta::field::Raw(crate::rules::show::items(all.values()));
        let why = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        errors.push(FieldError::invalid(path, shown, why));
    }
    let mut seen = HashSet::new();
    for (i, annotation) in all.iter().enumerate() {
        let here = path.index(i);
        let (key, at) = (annotation.key(), here.child("key"));
        if name.is_empty() {
            errors.push(FieldError::invalid(&at, key, "requires metadata.name be non-empty"));
        } else {
            qualified(&format!("{name}/{key}"), &at, errors);
        }
        let value = here.child("valueExpression");
        let text = annotation.value_expression().trim();
        if text.is_empty() {
            errors.push(FieldError::required(&value, "valueExpression is not specified"));
        } else if text.len() > MAX_VALUE_EXPRESSION_BYTES {
            let why = format!("must not exceed {MAX_VALUE_EXPRESSION_BYTES} bytes in length");
            errors.push(FieldError::required(&value, why));
        } else {
            expression(text, env, ResultType::TextOrNull, &value, errors);
        }
        if !seen.insert(key) {
            errors.push(FieldError::duplicate(&at, key));
        }
    }
}

/// Validates the kind of a policy's parameters.
pub fn validate_param_kind(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let kind = v1::ParamKind::new(node);
    let (text, at) = (kind.api_version(), path.child("apiVersion"));
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    if text.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else if version.contains('/') {
        errors.push(FieldError::invalid(&at, text, format!("unexpected GroupVersion string: {text}")));
    } else {
        if !group.is_empty() {
            joined(names::subdomain_errors(group), group, "", &at, errors);
        }
        if version.is_empty() {
            errors.push(FieldError::invalid(&at, text, "version must be specified"));
        } else {
            joined(names::label_1035_errors(version), version, "", &at, errors);
        }
    }
    let (name, at) = (kind.kind(), path.child("kind"));
    if name.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        let wrong = names::label_1035_errors(&name.to_ascii_lowercase());
        joined(wrong, name, "may have mixed case, but should otherwise match: ", &at, errors);
    }
}

fn joined(wrong: Vec<String>, value: &str, before: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(path, value, format!("{before}{}", wrong.join(","))));
    }
}

/// Validates a rule that can be limited to some object names.
pub fn validate_named_rule(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (i, name) in v1::NamedRuleWithOperations::new(node).resource_names().iter().enumerate() {
        let at = path.child("resourceNames");
        let at = at.index(i);
        each(formats::path_segment(name), name, &at, errors);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at, name));
        }
    }
    super::webhook::validate_rule(node, path, errors);
}

/// Validates the status: the results of type checking, and conditions (upstream `validateValidatingAdmissionPolicyStatus`).
pub fn validate_status(new: &Struct, _: &Struct, errors: &mut ErrorList) {
    let path = Path::new("status");
    let status = v1::ValidatingAdmissionPolicy::new(new).status();
    if let Some(checked) = status.type_checking() {
        let at = path.child("typeChecking");
        let at = at.child("expressionWarnings");
        for (i, warning) in checked.expression_warnings().iter().enumerate() {
            let at = at.index(i);
            required(warning.warning(), &at.child("warning"), errors);
            required(warning.field_ref().trim(), &at.child("fieldRef"), errors);
        }
    }
    crate::rules::status::conditions(status.node(), &path.child("conditions"), errors);
}

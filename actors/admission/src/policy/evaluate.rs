//! Evaluation of policies for one request. Pure: the same question, policies and authorizer answers give the same result.

use std::sync::Arc;

use oarlock_cel::{Authorizer, Budget, Value, limits};
use oarlock_schema::Obj;
use serde::Serialize;

use super::compiled::{Failure, Policy, PolicyId, Validation};
use super::question::{Action, Answer, BoundPolicy, Denial, Input, Question};
use super::scope::{self, Failed, Scope};

/// The longest message from an expression, in bytes; a longer one is ignored.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;
/// The longest value of an audit annotation, in bytes; the rest is cut off.
const MAX_ANNOTATION_BYTES: usize = 10 * 1024;
/// The annotation key of violations that are only audited.
const FAILURE_KEY: &str = "validation.policy.admission.k8s.io/validation_failure";

/// Lookup of compiled policies by the identity in a question.
pub trait Policies {
    /// Returns the policy, if known.
    fn policy(&self, id: &PolicyId) -> Option<Arc<Policy>>;
}

/// A violated validation.
struct Objection {
    /// The position among the policy's validations.
    index: usize,
    message: String,
    reason: String,
}

/// Evaluates a question. `authorizer` answers the expressions' checks of the requesting user's permissions.
#[must_use]
pub fn judge(question: &Question, policies: &dyn Policies, authorizer: Option<&dyn Authorizer>) -> Answer {
    let mut answer = Answer::default();
    for asked in &question.asked {
        match policies.policy(&asked.policy) {
            Some(policy) => ask(&question.input, asked, &policy, authorizer, &mut answer),
            // The failure policy of an unknown policy is unknown, too: the request is refused.
            None => answer.denials.push(Denial {
                policy: asked.policy.name.clone(),
                binding: Some(asked.binding.clone()),
                message: "the policy is not known here".to_owned(),
                reason: "Invalid".to_owned(),
            }),
        }
    }
    answer
}

fn ask(input: &Input, asked: &BoundPolicy, policy: &Policy, authorizer: Option<&dyn Authorizer>, answer: &mut Answer) {
    let deny = |message: String, reason: &str| Denial {
        policy: policy.id.name.clone(),
        binding: Some(asked.binding.clone()),
        message,
        reason: reason.to_owned(),
    };
    for params in &asked.params {
        let result = match scope::request(&input.request) {
            Ok(request) => evaluate_once(input, &request, policy, params.as_ref(), authorizer),
            Err(error) => Err(error.to_string()),
        };
        let (objections, annotations) = match result {
            Ok(found) => found,
            Err(_) if policy.failure == Failure::Ignore => continue,
            Err(message) => (vec![Objection { index: 0, message, reason: "Invalid".to_owned() }], Vec::new()),
        };
        for objection in objections {
            for action in &asked.actions {
                match action {
                    Action::Deny => answer.denials.push(deny(objection.message.clone(), &objection.reason)),
                    Action::Warn => answer.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        policy.id.name, asked.binding, objection.message
                    )),
                    Action::Audit => answer.annotations.extend(audit_annotation(asked, &objection)),
                }
            }
        }
        for annotation in annotations {
            match annotation {
                Ok((key, value)) => annotate(answer, format!("{}/{key}", policy.id.name), value),
                Err(why) => answer.denials.push(deny(why, "Invalid")),
            }
        }
    }
}

/// Adds an annotation; values of the same key are joined, each once.
fn annotate(answer: &mut Answer, key: String, value: String) {
    match answer.annotations.iter_mut().find(|(have, _)| *have == key) {
        Some((_, values)) if values.split(", ").any(|have| have == value) => {}
        Some((_, values)) => {
            values.push_str(", ");
            values.push_str(&value);
        }
        None => answer.annotations.push((key, value)),
    }
}

/// Returns the annotation of an audited violation, in upstream's format.
fn audit_annotation(asked: &BoundPolicy, objection: &Objection) -> Option<(String, String)> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct AuditedViolation<'a> {
        message: &'a str,
        policy: &'a str,
        binding: &'a str,
        expression_index: usize,
        validation_actions: &'a [Action],
    }
    let written = AuditedViolation {
        message: &objection.message,
        policy: &asked.policy.name,
        binding: &asked.binding,
        expression_index: objection.index,
        validation_actions: &asked.actions,
    };
    // Strings and numbers can always be serialised.
    serde_json::to_string(&[written]).ok().map(|json| (FAILURE_KEY.to_owned(), json))
}

type Annotations = Vec<Result<(String, String), String>>;

/// Evaluates a policy with one set of parameters.
///
/// # Errors
/// When the policy as a whole fails; its failure policy decides what follows.
fn evaluate_once(
    input: &Input,
    request: &Value<'_>,
    policy: &Policy,
    params: Option<&Obj>,
    authorizer: Option<&dyn Authorizer>,
) -> Result<(Vec<Objection>, Annotations), String> {
    if !applies(&Scope::new(input, request, policy, params, authorizer).without_namespace(), policy)? {
        return Ok((Vec::new(), Vec::new()));
    }
    let scope = Scope::new(input, request, policy, params, authorizer);
    let mut budget = Budget::new(limits::POLICY_COST);
    let mut refused = Vec::new();
    for (index, validation) in policy.validations.iter().enumerate() {
        match scope.eval(&validation.expression, &mut budget) {
            Ok(Value::Bool(true)) => {}
            Ok(_) => refused.push((index, None)),
            Err(Failed::Everywhere(why)) => return Err(why),
            Err(Failed::Here(_)) if policy.failure == Failure::Ignore => {}
            Err(Failed::Here(why)) => refused.push((index, Some(why))),
        }
    }
    let mut objections = Vec::new();
    for (index, failed) in refused {
        let Some(validation) = policy.validations.get(index) else { continue };
        let objection = match failed {
            Some(message) => Objection { index, message, reason: "Invalid".to_owned() },
            None => Objection {
                index,
                message: message(&scope, validation, &mut budget)
                    .map_err(|why| format!("failed messageExpression: {why}"))?,
                reason: validation.reason.clone(),
            },
        };
        objections.push(objection);
    }
    Ok((objections, annotations(&scope, policy)?))
}

/// Whether all match conditions hold. One that is false decides, whatever the errors of the others.
///
/// # Errors
/// The errors of conditions, when none was false.
fn applies<'a>(scope: &Scope<'a>, policy: &'a Policy) -> Result<bool, String> {
    let mut budget = Budget::new(limits::MATCH_CONDITIONS_COST);
    let mut failed = Vec::new();
    for condition in &policy.conditions {
        match scope.eval(condition, &mut budget) {
            Ok(Value::Bool(true)) => {}
            Ok(_) => return Ok(false),
            Err(Failed::Here(why)) => failed.push(why),
            Err(Failed::Everywhere(why)) => return Err(why),
        }
    }
    match failed.as_slice() {
        [] => Ok(true),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

/// Returns the message of a violated validation: from its message expression, else its message, else the expression.
///
/// # Errors
/// When the cost budget is used up.
fn message<'a>(scope: &Scope<'a>, validation: &'a Validation, budget: &mut Budget) -> Result<String, String> {
    let made = match validation.message_expression.as_ref().map(|expression| scope.eval(expression, budget)) {
        Some(Err(Failed::Everywhere(why))) => return Err(why),
        Some(Ok(value)) => value.as_str().map(|text| text.trim().to_owned()),
        Some(Err(Failed::Here(_))) | None => None,
    };
    let usable = |text: &String| !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
    Ok(match made.filter(usable) {
        Some(text) => text,
        None if !validation.message.is_empty() => validation.message.clone(),
        None => format!("failed expression: {}", validation.expression.text.trim()),
    })
}

/// Returns the audit annotations of the policy.
///
/// # Errors
/// When the cost budget is used up.
fn annotations<'a>(scope: &Scope<'a>, policy: &'a Policy) -> Result<Annotations, String> {
    let mut budget = Budget::new(limits::POLICY_COST);
    let mut all = Vec::new();
    for annotation in &policy.annotations {
        match scope.eval(&annotation.value, &mut budget) {
            Ok(value) => {
                let text = value.as_str().map_or("", str::trim);
                if !text.is_empty() {
                    let cut = text.floor_char_boundary(MAX_ANNOTATION_BYTES);
                    all.push(Ok((annotation.key.clone(), text.get(..cut).unwrap_or(text).to_owned())));
                }
            }
            Err(Failed::Everywhere(why)) => return Err(why),
            Err(Failed::Here(_)) if policy.failure == Failure::Ignore => {}
            Err(Failed::Here(why)) => all.push(Err(why)),
        }
    }
    Ok(all)
}

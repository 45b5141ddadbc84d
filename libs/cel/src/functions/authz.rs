//! Functions of `authorizer`, which asks whether a user may perform a request.

use std::sync::Arc;

use super::{Cost, Row, row, unfit};
use crate::context::Context;
use crate::error::EvalError;
use crate::value::{AccessQuery, AccessRequest, Check, Decision, Opaque, Value};

pub(super) const ROWS: &[Row] = &[
    row(
        "kubernetes.authorization.Authorizer.path(string): kubernetes.authorization.PathCheck",
        Cost::One,
        |_, args| {
            let (request, path) = text(args)?;
            if path.is_empty() {
                return Err(EvalError::failed("path must not be empty"));
            }
            next(request, |access| access.path = path, Check::Path)
        },
    ),
    row(
        "kubernetes.authorization.Authorizer.group(string): kubernetes.authorization.GroupCheck",
        Cost::One,
        |_, args| {
            let (request, group) = text(args)?;
            next(request, |access| access.group = group, Check::Group)
        },
    ),
    row(
        "kubernetes.authorization.Authorizer.serviceAccount(string, string): kubernetes.authorization.Authorizer",
        Cost::One,
        |_, args| {
            let [Value::Opaque(Opaque::Access(request)), Value::String(namespace), Value::String(name)] = args else {
                return unfit();
            };
            let account = Some((namespace.to_string(), name.to_string()));
            next(request, |access| access.account = account, Check::Authorizer)
        },
    ),
    row(
        "kubernetes.authorization.GroupCheck.resource(string): kubernetes.authorization.ResourceCheck",
        Cost::One,
        |_, args| {
            let (request, resource) = text(args)?;
            next(request, |access| access.resource = resource, Check::Resource)
        },
    ),
    row(
        "kubernetes.authorization.ResourceCheck.subresource(string): kubernetes.authorization.ResourceCheck",
        Cost::One,
        |_, args| {
            let (request, subresource) = text(args)?;
            next(request, |access| access.subresource = subresource, Check::Resource)
        },
    ),
    row(
        "kubernetes.authorization.ResourceCheck.namespace(string): kubernetes.authorization.ResourceCheck",
        Cost::One,
        |_, args| {
            let (request, namespace) = text(args)?;
            next(request, |access| access.namespace = namespace, Check::Resource)
        },
    ),
    row(
        "kubernetes.authorization.ResourceCheck.name(string): kubernetes.authorization.ResourceCheck",
        Cost::One,
        |_, args| {
            let (request, name) = text(args)?;
            next(request, |access| access.name = name, Check::Resource)
        },
    ),
    row(
        "kubernetes.authorization.ResourceCheck.fieldSelector(string): kubernetes.authorization.ResourceCheck",
        Cost::One,
        |_, args| {
            let (request, selector) = text(args)?;
            next(request, |access| access.field_selector = selector, Check::Resource)
        },
    ),
    row(
        "kubernetes.authorization.ResourceCheck.labelSelector(string): kubernetes.authorization.ResourceCheck",
        Cost::One,
        |_, args| {
            let (request, selector) = text(args)?;
            next(request, |access| access.label_selector = selector, Check::Resource)
        },
    ),
    row("kubernetes.authorization.PathCheck.check(string): kubernetes.authorization.Decision", Cost::Ask, check),
    row("kubernetes.authorization.ResourceCheck.check(string): kubernetes.authorization.Decision", Cost::Ask, check),
    row("kubernetes.authorization.Decision.allowed(): bool", Cost::One, |_, args| {
        decision(args, |decision| Value::Bool(decision.allowed))
    }),
    row("kubernetes.authorization.Decision.reason(): string", Cost::One, |_, args| {
        decision(args, |decision| decision.reason.clone().into())
    }),
    row("kubernetes.authorization.Decision.errored(): bool", Cost::One, |_, args| {
        decision(args, |decision| Value::Bool(decision.error.is_some()))
    }),
    row("kubernetes.authorization.Decision.error(): string", Cost::One, |_, args| {
        decision(args, |decision| decision.error.clone().unwrap_or_default().into())
    }),
];

fn text<'v>(args: &'v [Value<'_>]) -> Result<(&'v AccessRequest, String), EvalError> {
    match args {
        [Value::Opaque(Opaque::Access(request)), Value::String(text)] => Ok((request, text.to_string())),
        _ => unfit(),
    }
}

fn next<'a>(
    request: &AccessRequest,
    change: impl FnOnce(&mut AccessQuery),
    check: Check,
) -> Result<Value<'a>, EvalError> {
    let mut query = request.query.clone();
    change(&mut query);
    Ok(Value::access(query, check))
}

fn check<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (request, verb) = text(args)?;
    let Some(authorizer) = cx.activation.authorizer() else { return Err(EvalError::failed("there is no authorizer")) };
    let decision = authorizer.check(&AccessQuery { verb, ..request.query.clone() });
    Ok(Value::Opaque(Opaque::Decision(Arc::new(decision))))
}

fn decision<'a>(args: &[Value<'a>], read: fn(&Decision) -> Value<'a>) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Opaque(Opaque::Decision(decision))] => Ok(read(decision)),
        _ => unfit(),
    }
}

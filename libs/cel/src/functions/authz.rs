//! The functions of `authorizer`, which asks whether a user may perform a request.

use std::sync::Arc;

use super::{Cost, Row, row, unfit};
use crate::error::EvalError;
use crate::interpreter::Context;
use crate::value::{Opaque, Value};

pub(super) const ROWS: &[Row] = &[
    row(
        "kubernetes.authorization.Authorizer.path(string): kubernetes.authorization.PathCheck",
        Cost::One,
        |_, args| {
            let (request, path) = text(args)?;
            if path.is_empty() {
                return Err(EvalError::failed("path must not be empty"));
            }
            next(request, |access| access.path = path, What::Path)
        },
    ),
    row(
        "kubernetes.authorization.Authorizer.group(string): kubernetes.authorization.GroupCheck",
        Cost::One,
        |_, args| {
            let (request, group) = text(args)?;
            next(request, |access| access.group = group, What::Group)
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
            next(request, |access| access.account = account, What::Authorizer)
        },
    ),
    row(
        "kubernetes.authorization.GroupCheck.resource(string): kubernetes.authorization.ResourceCheck",
        Cost::One,
        |_, args| {
            let (request, resource) = text(args)?;
            next(request, |access| access.resource = resource, What::Resource)
        },
    ),
    row(
        "kubernetes.authorization.ResourceCheck.subresource(string): kubernetes.authorization.ResourceCheck",
        Cost::One,
        |_, args| {
            let (request, subresource) = text(args)?;
            next(request, |access| access.subresource = subresource, What::Resource)
        },
    ),
    row(
        "kubernetes.authorization.ResourceCheck.namespace(string): kubernetes.authorization.ResourceCheck",
        Cost::One,
        |_, args| {
            let (request, namespace) = text(args)?;
            next(request, |access| access.namespace = namespace, What::Resource)
        },
    ),
    row(
        "kubernetes.authorization.ResourceCheck.name(string): kubernetes.authorization.ResourceCheck",
        Cost::One,
        |_, args| {
            let (request, name) = text(args)?;
            next(request, |access| access.name = name, What::Resource)
        },
    ),
    row(
        "kubernetes.authorization.ResourceCheck.fieldSelector(string): kubernetes.authorization.ResourceCheck",
        Cost::One,
        |_, args| {
            let (request, selector) = text(args)?;
            next(request, |access| access.field_selector = selector, What::Resource)
        },
    ),
    row(
        "kubernetes.authorization.ResourceCheck.labelSelector(string): kubernetes.authorization.ResourceCheck",
        Cost::One,
        |_, args| {
            let (request, selector) = text(args)?;
            next(request, |access| access.label_selector = selector, What::Resource)
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

/// The question of an expression to the authorizer.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AccessQuery {
    /// Namespace and name of the ServiceAccount in question; `None` for the user of the request.
    pub account: Option<(String, String)>,
    /// A non-resource path; all fields below are empty for such a path.
    pub path: String,
    /// API group.
    pub group: String,
    /// Plural name.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name, or empty.
    pub name: String,
    /// Field selector as text, or empty.
    pub field_selector: String,
    /// Label selector as text, or empty.
    pub label_selector: String,
    /// The verb.
    pub verb: String,
}

/// The authorizer's decision.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Decision {
    /// Whether the access is allowed.
    pub allowed: bool,
    /// The reason.
    pub reason: String,
    /// The error that occurred during the decision, if any.
    pub error: Option<String>,
}

/// An authorizer that answers the questions of expressions.
pub trait Authorizer {
    /// Returns the decision about an access.
    fn check(&self, query: &AccessQuery) -> Decision;
}

/// An authorizer question under construction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    query: AccessQuery,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Authorizer,
    Path,
    Group,
    Resource,
}

impl Request {
    pub(crate) fn type_name(&self) -> &'static str {
        match self.what {
            What::Authorizer => "kubernetes.authorization.Authorizer",
            What::Path => "kubernetes.authorization.PathCheck",
            What::Group => "kubernetes.authorization.GroupCheck",
            What::Resource => "kubernetes.authorization.ResourceCheck",
        }
    }
}

impl Value<'_> {
    /// Returns the value of the variable `authorizer`.
    #[must_use]
    pub fn authorizer() -> Self {
        Self::access(AccessQuery::default(), What::Authorizer)
    }

    /// Returns a resource check, the value of a variable such as `authorizer.requestResource`.
    #[must_use]
    pub fn resource_check(query: AccessQuery) -> Self {
        Self::access(query, What::Resource)
    }

    fn access(query: AccessQuery, what: What) -> Self {
        Self::Opaque(Opaque::Access(Arc::new(Request { query, what })))
    }
}

fn text<'v>(args: &'v [Value<'_>]) -> Result<(&'v Request, String), EvalError> {
    match args {
        [Value::Opaque(Opaque::Access(request)), Value::String(text)] => Ok((request, text.to_string())),
        _ => unfit(),
    }
}

fn next<'a>(request: &Request, change: impl FnOnce(&mut AccessQuery), what: What) -> Result<Value<'a>, EvalError> {
    let mut query = request.query.clone();
    change(&mut query);
    Ok(Value::access(query, what))
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

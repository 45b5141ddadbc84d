//! The variables that a policy's expressions can read.

use std::cell::RefCell;
use std::collections::BTreeMap;

use oarlock_cel::{AccessQuery, Activation, Authorizer, Budget, EvalError, Key, List, Map, Text, Value};
use oarlock_schema::Obj;

use super::compiled::{Expression, Policy};
use super::question::{Input, Request};

/// The variables of one policy for one request and one set of parameters. The policy's own variables are computed when first read.
pub(super) struct Scope<'a> {
    input: &'a Input,
    request: Value<'a>,
    params: Option<&'a Obj>,
    namespace: Option<&'a Obj>,
    policy: &'a Policy,
    computed: RefCell<BTreeMap<&'a str, Result<Value<'a>, EvalError>>>,
    authorizer: Option<&'a dyn Authorizer>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(
        input: &'a Input,
        request: &Value<'a>,
        policy: &'a Policy,
        params: Option<&'a Obj>,
        authorizer: Option<&'a dyn Authorizer>,
    ) -> Self {
        let (request, namespace) = (request.clone(), input.namespace.as_ref());
        Self { input, request, params, namespace, policy, computed: RefCell::default(), authorizer }
    }

    /// Returns the same scope without a namespace, for match conditions.
    pub(super) fn without_namespace(self) -> Self {
        Self { namespace: None, ..self }
    }

    /// Evaluates an expression of the policy.
    ///
    /// # Errors
    /// Upstream's text for an expression that fails.
    pub(super) fn eval(&self, expression: &'a Expression, budget: &mut Budget) -> Result<Value<'a>, Failed> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => return Err(Failed::Here(format!("compilation error: {why}"))),
        };
        program.eval(self, budget).map_err(|error| match error {
            EvalError::OutOfBudget => Failed::Everywhere(error.to_string()),
            error => Failed::Here(format!("expression '{}' resulted in error: {error}", expression.text)),
        })
    }

    fn own(&self, name: &str, budget: &mut Budget) -> Result<Value<'a>, EvalError> {
        if let Some(known) = self.computed.borrow().get(name) {
            return known.clone();
        }
        let found = self.policy.variables.iter().find(|variable| variable.name == name);
        let Some(variable) = found else { return Err(EvalError::failed(format!("no such attribute(s): {name}"))) };
        let short = name.trim_start_matches("variables.");
        let failed = |what: &str, why: &dyn std::fmt::Display| {
            EvalError::failed(format!("composited variable \"{short}\" fails to {what}: {why}"))
        };
        let result = match &variable.expression.program {
            Err(why) => Err(failed("compile", why)),
            Ok(program) => program.eval(self, budget).map_err(|error| match error {
                EvalError::Failed(why) => failed("evaluate", &why),
                last => last,
            }),
        };
        self.computed.borrow_mut().insert(&variable.name, result.clone());
        result
    }
}

/// How the evaluation of an expression failed. The texts are part of the answer to the user.
#[derive(Debug)]
pub(super) enum Failed {
    /// An error of this expression.
    Here(String),
    /// The cost budget is used up, so that no further expression is evaluated.
    Everywhere(String),
}

impl<'a> Activation<'a> for Scope<'a> {
    fn variable(&self, name: &str, budget: &mut Budget) -> Result<Value<'a>, EvalError> {
        let object = |obj: Option<&'a Obj>| Ok(obj.map_or(Value::Null, Value::object));
        match name {
            "object" => object(self.input.object.as_ref()),
            "oldObject" => object(self.input.old.as_ref()),
            "namespaceObject" => object(self.namespace),
            "params" => object(self.params),
            "request" => Ok(self.request.clone()),
            "authorizer" => Ok(Value::authorizer()),
            "authorizer.requestResource" => Ok(Value::resource_check(of_request(&self.input.request))),
            own => self.own(own, budget),
        }
    }

    fn authorizer(&self) -> Option<&dyn Authorizer> {
        self.authorizer
    }
}

/// Returns the access check for the request's own resource.
fn of_request(request: &Request) -> AccessQuery {
    AccessQuery {
        group: request.group.clone(),
        resource: request.resource.clone(),
        subresource: request.subresource.clone(),
        namespace: request.namespace.clone(),
        name: request.name.clone(),
        ..AccessQuery::default()
    }
}

/// Returns the variable `request`: upstream's AdmissionRequest without its objects. Empty fields are left out.
///
/// # Errors
/// None in practice: no field is nested deeply.
pub(super) fn request(request: &Request) -> Result<Value<'_>, EvalError> {
    let [group, version, kind] = &request.kind;
    let kind = fields([("group", text(group)), ("version", text(version)), ("kind", text(kind))])?;
    let resource = fields([
        ("group", text(&request.group)),
        ("version", text(&request.version)),
        ("resource", text(&request.resource)),
    ])?;
    let mut user = vec![("username", text(&request.user.name)), ("uid", text(&request.user.uid))];
    user.retain(|(_, value)| value.as_str() != Some(""));
    if !request.user.groups.is_empty() {
        user.push(("groups", texts(&request.user.groups)?));
    }
    if !request.user.extra.is_empty() {
        let extra = request.user.extra.iter().map(|(key, values)| Ok((key.as_str(), texts(values)?)));
        user.push(("extra", fields(extra.collect::<Result<Vec<_>, EvalError>>()?)?));
    }
    let mut all = vec![
        ("subResource", text(&request.subresource)),
        ("requestSubResource", text(&request.subresource)),
        ("name", text(&request.name)),
        ("namespace", text(&request.namespace)),
    ];
    all.retain(|(_, value)| value.as_str() != Some(""));
    let options = match request.operation.as_str() {
        "CREATE" => "CreateOptions",
        "UPDATE" => "UpdateOptions",
        "DELETE" => "DeleteOptions",
        _ => "",
    };
    let options = if options.is_empty() {
        Value::Null
    } else {
        let mut said = vec![("kind", text(options)), ("apiVersion", text("meta.k8s.io/v1"))];
        if request.dry_run {
            said.push(("dryRun", Value::List(List::new(vec![text("All")])?)));
        }
        fields(said)?
    };
    all.extend([
        ("kind", kind.clone()),
        ("requestKind", kind),
        ("resource", resource.clone()),
        ("requestResource", resource),
        ("operation", text(&request.operation)),
        ("userInfo", fields(user)?),
        ("dryRun", Value::Bool(request.dry_run)),
        ("options", options),
    ]);
    fields(all)
}

fn text(text: &str) -> Value<'_> {
    Value::String(Text::Borrowed(text))
}

fn texts(all: &[String]) -> Result<Value<'_>, EvalError> {
    Ok(Value::List(List::new(all.iter().map(|one| text(one)).collect())?))
}

fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Result<Value<'a>, EvalError> {
    let key = |name: &'a str| Key::String(Text::Borrowed(name));
    Ok(Value::Map(Map::new(fields.into_iter().map(|(name, value)| (key(name), value)).collect())?))
}

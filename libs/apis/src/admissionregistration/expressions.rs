//! Compiles the expressions of admission policies: their variables and required result types (upstream `plugin/cel/compile.go`).

use std::sync::LazyLock;

use oarlock_cel::{Env, Program, Type};

/// The result type that an expression must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultType {
    /// A boolean: validations and match conditions.
    Bool,
    /// A string: messages.
    Text,
    /// A string or null: audit annotations.
    TextOrNull,
    /// Any type: variables.
    Anything,
}

/// Returns the variables of a policy's expressions: `object`, `oldObject`, `request`, `namespaceObject`; `params` if the policy names a parameter kind;
/// `authorizer` everywhere except in messages.
#[must_use]
pub fn environment(params: bool, authorizer: bool) -> Env {
    let mut env = BASE.clone();
    if params {
        env.declare("params", Type::Dyn);
    }
    if authorizer {
        env.declare("authorizer", Type::Opaque("kubernetes.authorization.Authorizer"));
        env.declare("authorizer.requestResource", Type::Opaque("kubernetes.authorization.ResourceCheck"));
    }
    env
}

/// Adds the parent of a policy's own variables; none of these variables is declared yet.
#[must_use]
pub fn with_variables(env: Env) -> Env {
    env.with("variables", Type::object("kubernetes.variables", []))
}

/// Returns the name of a policy's own variable in expressions.
#[must_use]
pub fn variable(name: &str) -> String {
    format!("variables.{name}")
}

/// Compiles an expression.
///
/// # Errors
/// Upstream's message about a refused expression.
pub fn compile(text: &str, env: &Env, gives: ResultType) -> Result<Program, String> {
    let program = Program::compile(text, env).map_err(|error| format!("compilation failed: {error}"))?;
    let have = program.result();
    let (good, wanted) = match gives {
        ResultType::Bool => (*have == Type::Bool, "bool"),
        ResultType::Text => (*have == Type::String, "string"),
        ResultType::TextOrNull => (matches!(have, Type::String | Type::Null), "one of [string null_type]"),
        ResultType::Anything => (true, ""),
    };
    if good { Ok(program) } else { Err(format!("must evaluate to {wanted} but got {have}")) }
}

static BASE: LazyLock<Env> = LazyLock::new(|| {
    let env = Env::new().with("object", Type::Dyn).with("oldObject", Type::Dyn);
    env.with("request", request()).with("namespaceObject", namespace())
});

fn request() -> Type {
    let text = Type::String;
    let named = |name, last| Type::object(name, ["group", "version", last].map(|field| (field, Type::String)));
    let kind = named("kubernetes.GroupVersionKind", "kind");
    let resource = named("kubernetes.GroupVersionResource", "resource");
    let texts = Type::list(Type::String);
    let user = Type::object(
        "kubernetes.UserInfo",
        [
            ("username", text.clone()),
            ("uid", text.clone()),
            ("groups", texts.clone()),
            ("extra", Type::map(text.clone(), texts)),
        ],
    );
    Type::object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", text.clone()),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", text.clone()),
            ("name", text.clone()),
            ("namespace", text.clone()),
            ("operation", text),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

fn namespace() -> Type {
    let (text, texts) = (Type::String, Type::list(Type::String));
    let labels = Type::map(Type::String, Type::String);
    let condition = Type::object(
        "kubernetes.NamespaceCondition",
        [
            ("status", text.clone()),
            ("type", text.clone()),
            ("lastTransitionTime", Type::Timestamp),
            ("message", text.clone()),
            ("reason", text.clone()),
        ],
    );
    let metadata = Type::object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text.clone()),
            ("generateName", text.clone()),
            ("namespace", text.clone()),
            ("labels", labels.clone()),
            ("annotations", labels),
            // Upstream declares the field with this spelling, and no request has the field.
            ("UID", text.clone()),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", text.clone()),
            ("finalizers", texts.clone()),
        ],
    );
    let status = Type::object("kubernetes.NamespaceStatus", [("conditions", Type::list(condition)), ("phase", text)]);
    let spec = Type::object("kubernetes.NamespaceSpec", [("finalizers", texts)]);
    Type::object("kubernetes.Namespace", [("metadata", metadata), ("spec", spec), ("status", status)])
}

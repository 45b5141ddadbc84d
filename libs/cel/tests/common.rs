//! Helpers of the tests: an environment with a few variables, and the values of expressions as text.

use std::collections::BTreeMap;

use oarlock_cel::{Activation, Authorizer, Budget, Env, EvalError, Opaque, Program, Type, Value};
use oarlock_meta::quote::quote;

/// Variables by name.
#[derive(Default)]
pub(crate) struct Vars<'a> {
    pub(crate) values: BTreeMap<&'a str, Value<'a>>,
    pub(crate) authorizer: Option<&'a dyn Authorizer>,
}

impl<'a> Activation<'a> for Vars<'a> {
    fn variable(&self, name: &str, _: &mut Budget) -> Result<Value<'a>, EvalError> {
        self.values.get(name).cloned().ok_or_else(|| EvalError::failed(format!("no such attribute(s): {name}")))
    }

    fn authorizer(&self) -> Option<&dyn Authorizer> {
        self.authorizer
    }
}

pub(crate) fn env() -> Env {
    let env = Env::new().with("object", Type::Dyn).with("x", Type::Dyn).with("n", Type::Int).with("s", Type::String);
    env.with("authorizer", Type::Opaque("kubernetes.authorization.Authorizer"))
}

/// Returns the value of an expression as text, or the error.
pub(crate) fn run_with(text: &str, vars: &Vars<'_>) -> Result<String, String> {
    let program = Program::compile(text, &env()).map_err(|error| error.to_string())?;
    let mut budget = Budget::new(oarlock_cel::limits::POLICY_COST);
    program.eval(vars, &mut budget).map(|value| show(&value)).map_err(|error| error.to_string())
}

pub(crate) fn run(text: &str) -> Result<String, String> {
    run_with(text, &Vars::default())
}

/// Checks a table of expressions and expected values; `!` marks the text of an error.
pub(crate) fn check(vars: &Vars<'_>, table: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (text, want) in table {
        let have = run_with(text, vars).unwrap_or_else(|error| format!("!{error}"));
        if have != *want {
            wrong.push(format!("{text}\n  want {want}\n  have {have}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub(crate) fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Uint(n) => format!("{n}u"),
        Value::Double(n) if n.is_infinite() => format!("d{}Inf", if *n > 0.0 { "+" } else { "-" }),
        Value::Double(n) => format!("d{n}"),
        Value::String(text) => quote(text),
        Value::Bytes(bytes) => format!("b{}", quote(&String::from_utf8_lossy(bytes))),
        Value::Timestamp(time) => format!("{time}Z"),
        Value::Duration(span) => {
            let (seconds, rest) = (span.nanos() / 1_000_000_000, (span.nanos() % 1_000_000_000).abs());
            if rest == 0 { format!("{seconds}s") } else { format!("{seconds}.{rest:09}s") }
        }
        Value::List(list) => {
            let items: Vec<String> = list.iter().map(|item| show(&item)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Map(map) => {
            let mut entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{}:{}", show(&key.value()), show(&value))).collect();
            entries.sort();
            format!("{{{}}}", entries.join(","))
        }
        Value::Type(ty) => format!("type:{}", ty.name()),
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(inner)) => format!("of({})", show(inner)),
        Value::Opaque(Opaque::Quantity(quantity)) => format!("quantity:{}", quantity.canonical()),
        Value::Opaque(Opaque::Ip(ip)) => ip.to_string(),
        Value::Opaque(Opaque::Cidr(cidr)) => cidr.to_string(),
        Value::Opaque(Opaque::Semver(version)) => version.to_string(),
        Value::Opaque(other) => format!("{other:?}"),
    }
}

//! Functions, methods and operators: one row each, with a signature in cel-go's notation, a cost, and the implementation.

mod authz;
mod conversions;
mod format;
mod lists;
mod named_formats;
mod network;
mod numbers;
mod operators;
mod optionals;
mod quantity;
mod regexes;
mod semver;
mod sets;
mod strings;
mod times;
mod url;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) use times::parse as timestamp;

use crate::error::EvalError;
use crate::overload::{Cost, Overload, Run};
use crate::signature::{self, Signature};
use crate::types::Type;

/// One function or operator with one signature.
pub(crate) struct Row {
    text: &'static str,
    cost: Cost,
    run: Run,
}

pub(crate) const fn row(text: &'static str, cost: Cost, run: Run) -> Row {
    Row { text, cost, run }
}

const TABLES: &[&[Row]] = &[
    operators::ROWS,
    numbers::ROWS,
    conversions::ROWS,
    strings::ROWS,
    format::ROWS,
    times::ROWS,
    lists::ROWS,
    sets::ROWS,
    optionals::ROWS,
    regexes::ROWS,
    url::ROWS,
    quantity::ROWS,
    network::ROWS,
    named_formats::ROWS,
    semver::ROWS,
    authz::ROWS,
];

static OVERLOADS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut all: HashMap<&str, Vec<Overload>> = HashMap::new();
    for row in TABLES.iter().copied().flatten() {
        // Never fails: a test parses all rows.
        let Some((name, signature)) = signature::read(row.text) else { continue };
        all.entry(name).or_default().push(Overload { signature, cost: row.cost, run: row.run });
    }
    all
});

static CONDITION: LazyLock<Signature> = LazyLock::new(|| {
    let a = Type::Var(0);
    Signature { member: false, params: vec![Type::Bool, a.clone(), a.clone()], result: a, vars: 1 }
});

/// Returns the overloads of a name, as functions or as methods.
pub(crate) fn named(name: &str, member: bool) -> Vec<&'static Overload> {
    let all: &HashMap<&str, Vec<Overload>> = &OVERLOADS;
    all.get(name).into_iter().flatten().filter(|overload| overload.signature.member == member).collect()
}

/// Whether any function or method has this name.
pub(crate) fn exists(name: &str) -> bool {
    let all: &HashMap<&str, Vec<Overload>> = &OVERLOADS;
    all.contains_key(name)
}

/// Returns the signature of `?:`, which is no function because only one of two arguments is evaluated.
pub(crate) fn condition() -> &'static Signature {
    &CONDITION
}

/// Fails for arguments that do not match; rows are called only with arguments that match.
fn unfit<T>() -> Result<T, EvalError> {
    Err(EvalError::no_overload())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_read_and_no_two_say_the_same() {
        let mut seen = std::collections::HashSet::new();
        for row in TABLES.iter().copied().flatten() {
            let (name, signature) = signature::read(row.text).unwrap_or_else(|| panic!("{}", row.text));
            assert!(seen.insert(format!("{name} {:?}", (signature.member, signature.params))), "{}", row.text);
        }
    }
}

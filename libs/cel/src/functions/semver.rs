//! Semantic versions (semver.org 2.0.0).

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use oarlock_meta::quote::quote;

use super::quantity::sign;
use super::{Cost, Row, row, unfit};
use crate::error::EvalError;
use crate::value::{Opaque, Value};

pub(super) const ROWS: &[Row] = &[
    row("semver(string): kubernetes.Semver", Cost::Scan, |_, args| make(args, false)),
    row("semver(string, bool): kubernetes.Semver", Cost::Scan, |_, args| match args {
        [text, Value::Bool(lenient)] => make(std::slice::from_ref(text), *lenient),
        _ => unfit(),
    }),
    row("isSemver(string): bool", Cost::Scan, |_, args| Ok(Value::Bool(make(args, false).is_ok()))),
    row("isSemver(string, bool): bool", Cost::Scan, |_, args| match args {
        [text, Value::Bool(lenient)] => Ok(Value::Bool(make(std::slice::from_ref(text), *lenient).is_ok())),
        _ => unfit(),
    }),
    row("kubernetes.Semver.major(): int", Cost::One, |_, args| number(args, 0)),
    row("kubernetes.Semver.minor(): int", Cost::One, |_, args| number(args, 1)),
    row("kubernetes.Semver.patch(): int", Cost::One, |_, args| number(args, 2)),
    row("kubernetes.Semver.isGreaterThan(kubernetes.Semver): bool", Cost::One, |_, args| {
        order(args).map(|order| Value::Bool(order.is_gt()))
    }),
    row("kubernetes.Semver.isLessThan(kubernetes.Semver): bool", Cost::One, |_, args| {
        order(args).map(|order| Value::Bool(order.is_lt()))
    }),
    row("kubernetes.Semver.compareTo(kubernetes.Semver): int", Cost::One, |_, args| {
        order(args).map(|order| Value::Int(sign(order)))
    }),
];

/// A semantic version. Build metadata (`+…`) is ignored.
#[derive(Clone, Debug)]
pub struct Version {
    numbers: [u64; 3],
    pre: Vec<Part>,
}

/// One part of a pre-release. Numbers sort before words.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    Number(u64),
    Word(String),
}

impl Version {
    fn order(&self, other: &Self) -> Ordering {
        // A version sorts after its pre-releases.
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (i, part) in self.pre.iter().enumerate() {
            f.write_str(if i > 0 { "." } else { "-" })?;
            match part {
                Part::Number(n) => n.fmt(f)?,
                Part::Word(word) => f.write_str(word)?,
            }
        }
        Ok(())
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
}

fn make<'a>(args: &[Value<'a>], lenient: bool) -> Result<Value<'a>, EvalError> {
    let [Value::String(text)] = args else { return unfit() };
    let text = if lenient { normal(text) } else { text.to_string() };
    parse(&text).map(|version| Value::Opaque(Opaque::Semver(Arc::new(version)))).map_err(EvalError::Failed)
}

/// Normalizes a version: no leading `v`, three numbers, no leading zeros.
fn normal(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (numbers, rest) = text.split_at(text.find(['-', '+']).unwrap_or(text.len()));
    let mut numbers: Vec<String> = numbers
        .split('.')
        .map(|n| if n.len() > 1 { n.trim_start_matches('0') } else { n })
        .map(|n| if n.is_empty() { "0" } else { n }.to_owned())
        .collect();
    while numbers.len() < 3 {
        numbers.push("0".to_owned());
    }
    format!("{}{rest}", numbers.join("."))
}

fn parse(text: &str) -> Result<Version, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, patch] = parts.as_slice() else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let (patch, build) = patch.split_once('+').map_or((*patch, None), |(patch, build)| (patch, Some(build)));
    let (patch, pre) = patch.split_once('-').map_or((patch, None), |(patch, pre)| (patch, Some(pre)));
    let numbers = [whole("Major", major)?, whole("Minor", minor)?, whole("Patch", patch)?];
    let pre = pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(part).collect::<Result<_, _>>())?;
    for piece in build.into_iter().flat_map(|build| build.split('.')) {
        if piece.is_empty() {
            return Err("Build meta data is empty".to_owned());
        }
        if !piece.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(format!("Invalid character(s) found in build meta data {}", quote(piece)));
        }
    }
    Ok(Version { numbers, pre })
}

fn whole(what: &str, text: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        let what = what.to_ascii_lowercase();
        return Err(format!("Invalid character(s) found in {what} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{what} number must not contain leading zeroes {}", quote(text)));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", quote(text)))
}

fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {}", quote(text)));
        }
        return text.parse().map(Part::Number).map_err(|_| "Numeric PreRelease version is too large".to_owned());
    }
    if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err(format!("Invalid character(s) found in prerelease {}", quote(text)));
    }
    Ok(Part::Word(text.to_owned()))
}

fn number<'a>(args: &[Value<'a>], place: usize) -> Result<Value<'a>, EvalError> {
    let [Value::Opaque(Opaque::Semver(version))] = args else { return unfit() };
    let number = version.numbers.get(place).and_then(|n| i64::try_from(*n).ok());
    number.map_or_else(unfit, |n| Ok(Value::Int(n)))
}

fn order(args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    match args {
        [Value::Opaque(Opaque::Semver(a)), Value::Opaque(Opaque::Semver(b))] => Ok(a.order(b)),
        _ => unfit(),
    }
}

//! Semantic versions (semver.org 2.0.0).

use std::cmp::Ordering;
use std::fmt;

use oarlock_meta::quote::quote;

/// A semantic version. Build metadata (`+…`) is ignored.
#[derive(Clone, Debug)]
pub struct Semver {
    pub(crate) numbers: [u64; 3],
    pre: Vec<Part>,
}

/// One part of a pre-release. Numbers sort before words.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    Number(u64),
    Word(String),
}

impl Semver {
    /// Parses a version; with `lenient`, after [`normal`].
    ///
    /// # Errors
    /// The error text of upstream's library.
    pub(crate) fn parse(text: &str, lenient: bool) -> Result<Self, String> {
        if lenient { parse(&normal(text)) } else { parse(text) }
    }

    pub(crate) fn order(&self, other: &Self) -> Ordering {
        // A version sorts after its pre-releases.
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        })
    }
}

impl fmt::Display for Semver {
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

impl PartialEq for Semver {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
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

fn parse(text: &str) -> Result<Semver, String> {
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
    Ok(Semver { numbers, pre })
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

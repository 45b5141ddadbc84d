//! Label selectors (upstream `labels.Selector`): text form, matching, and upstream's error texts.

use std::borrow::Cow;
use std::fmt;

use compact_str::CompactString;
use smallvec::SmallVec;

use super::Lookup;
use super::lex::{Token, lex};
use crate::field::{ErrorList, FieldError, Path};
use crate::names::{label_key_errors, label_value_errors};

/// The error for a text that is no label selector; the message is upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LabelSelectorError(pub String);

/// The comparison of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`
    NotIn,
    /// `key=a`
    Equals,
    /// `key==a`
    DoubleEquals,
    /// `key!=a`
    NotEquals,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>1`
    GreaterThan,
    /// `key<1`
    LessThan,
}

/// One condition on one label. The values are sorted and distinct, so that a value is found by binary search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: CompactString,
    /// The comparison.
    pub operator: Operator,
    /// The values to compare with.
    pub values: SmallVec<[CompactString; 1]>,
}

impl LabelRequirement {
    /// Makes a checked requirement.
    ///
    /// # Errors
    /// The field errors that upstream's `labels.NewRequirement` reports, under `path`.
    pub fn new(
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = impl Into<CompactString>>,
        path: &Path<'_>,
    ) -> Result<Self, ErrorList> {
        let values: SmallVec<[CompactString; 1]> = values.into_iter().map(Into::into).collect();
        let mut errors = ErrorList::new();
        let problems = label_key_errors(key);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(&path.child("key"), key, problems.join("; ")));
        }
        let at = path.child("values");
        let shown = || -> Vec<&str> { values.iter().map(CompactString::as_str).collect() };
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                errors.push(FieldError::invalid(
                    &at,
                    shown().as_slice(),
                    "for 'in', 'notin' operators, values set can't be empty",
                ));
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                let detail = "exact-match compatibility requires one single value";
                errors.push(FieldError::invalid(&at, shown().as_slice(), detail));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                let detail = "values set must be empty for exists and does not exist";
                errors.push(FieldError::invalid(&at, shown().as_slice(), detail));
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    let detail = "for 'Gt', 'Lt' operators, exactly one value is required";
                    errors.push(FieldError::invalid(&at, shown().as_slice(), detail));
                }
                for (i, value) in values.iter().enumerate() {
                    if value.parse::<i64>().is_err() {
                        let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                        errors.push(FieldError::invalid(&at.index(i), value, detail));
                    }
                }
            }
            _ => {}
        }
        for (i, value) in values.iter().enumerate() {
            let problems = label_value_errors(value);
            if !problems.is_empty() {
                errors.push(FieldError::invalid(&at.index(i).key(key), value, problems.join("; ")));
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut values = values;
        values.sort_unstable();
        values.dedup();
        Ok(Self { key: key.into(), operator, values })
    }

    /// Whether an object with these labels fulfils the requirement. A missing label fulfils only the negative operators.
    pub fn matches(&self, labels: &(impl Lookup + ?Sized)) -> bool {
        let value = labels.lookup(&self.key);
        let listed = |value: &str| self.values.binary_search_by(|one| one.as_str().cmp(value)).is_ok();
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let [limit] = self.values.as_slice() else { return false };
                let (Some(Ok(value)), Ok(limit)) = (value.map(str::parse::<i64>), limit.parse::<i64>()) else {
                    return false;
                };
                if self.operator == Operator::GreaterThan { value > limit } else { value < limit }
            }
        }
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = match self.operator {
            Operator::Exists => return f.write_str(&self.key),
            Operator::DoesNotExist => return write!(f, "!{}", self.key),
            Operator::Equals => ("=", ""),
            Operator::DoubleEquals => ("==", ""),
            Operator::NotEquals => ("!=", ""),
            Operator::In => (" in (", ")"),
            Operator::NotIn => (" notin (", ")"),
            Operator::GreaterThan => (">", ""),
            Operator::LessThan => ("<", ""),
        };
        let mut values: SmallVec<[&str; 4]> = self.values.iter().map(CompactString::as_str).collect();
        values.sort_unstable();
        write!(f, "{}{before}{}{after}", self.key, values.join(","))
    }
}

/// A conjunction of requirements, sorted by key; an empty one selects everything.
///
/// Upstream's selector that selects nothing (a nil `LabelSelector`) is a `None` of the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

impl LabelSelector {
    /// Returns the selector that selects everything.
    #[must_use]
    pub const fn everything() -> Self {
        Self { requirements: Vec::new() }
    }

    /// Returns the selector of the objects that fulfil all of these requirements.
    #[must_use]
    pub fn new(mut requirements: Vec<LabelRequirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements }
    }

    /// Returns the selector of the objects with all of these labels. The pairs must be valid.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let one = |(key, value): (&str, &str)| LabelRequirement {
            key: key.into(),
            operator: Operator::Equals,
            values: SmallVec::from_iter([value.into()]),
        };
        Self::new(labels.into_iter().map(one).collect())
    }

    /// Reads the text form, as the query parameter `labelSelector` holds it. Empty text selects everything.
    ///
    /// # Errors
    /// [`LabelSelectorError`] with upstream's text.
    pub fn parse(text: &str) -> Result<Self, LabelSelectorError> {
        if text.is_empty() {
            return Ok(Self::everything());
        }
        Parser { words: lex(text), at: 0 }.selector().map(Self::new).map_err(LabelSelectorError)
    }

    /// Whether an object with these labels fulfils all requirements.
    pub fn matches(&self, labels: &(impl Lookup + ?Sized)) -> bool {
        self.requirements.iter().all(|one| one.matches(labels))
    }

    /// Whether the selector selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the requirements, sorted by key.
    #[must_use]
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Returns the requirements, sorted by key.
    #[must_use]
    pub fn into_requirements(self) -> Vec<LabelRequirement> {
        self.requirements
    }

    /// Returns the single value that the label `key` must have, if the selector requires one; an index can then be used.
    #[must_use]
    pub fn exact(&self, key: &str) -> Option<&str> {
        let one = self.requirements.iter().find(|one| one.key == key)?;
        match (one.operator, one.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, one) in self.requirements.iter().enumerate() {
            write!(f, "{}{one}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl std::str::FromStr for LabelSelector {
    type Err = LabelSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

struct Parser<'a> {
    words: Vec<(Token, Cow<'a, str>)>,
    at: usize,
}

impl Parser<'_> {
    fn peek_raw(&self) -> (Token, &str) {
        self.words.get(self.at).map_or((Token::End, ""), |(token, word)| (*token, word))
    }

    /// Returns the next token where a key or value may appear; `in` and `notin` are ordinary identifiers in this position.
    fn peek(&self) -> (Token, &str) {
        match self.peek_raw() {
            (Token::In | Token::NotIn, word) => (Token::Identifier, word),
            other => other,
        }
    }

    fn next(&mut self) -> (Token, String) {
        let (token, word) = self.peek();
        let word = word.to_owned();
        self.at += 1;
        (token, word)
    }

    fn selector(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Token::Identifier | Token::Not, _) => {
                    let one = self.requirement().map_err(|error| format!("unable to parse requirement: {error}"))?;
                    requirements.push(one);
                    match self.next() {
                        (Token::End, _) => return Ok(requirements),
                        (Token::Comma, _) => {
                            let (token, word) = self.peek();
                            if !matches!(token, Token::Identifier | Token::Not) {
                                return Err(format!("found '{word}', expected: identifier after ','"));
                            }
                        }
                        (_, word) => return Err(format!("found '{word}', expected: ',' or 'end of string'")),
                    }
                }
                (Token::End, _) => return Ok(requirements),
                (_, word) => return Err(format!("found '{word}', expected: !, identifier, or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let (mut token, mut key) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next();
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let problems = label_key_errors(&key);
        if !problems.is_empty() {
            // Upstream has no path in this place and prints Go's `<nil>`.
            return Err(FieldError::invalid(&Path::new("<nil>"), &key, problems.join("; ")).to_string());
        }
        let done = matches!(self.peek().0, Token::End | Token::Comma);
        let (operator, values) = match (negated, done) {
            (true, _) => (Operator::DoesNotExist, Vec::new()),
            (false, true) => (Operator::Exists, Vec::new()),
            (false, false) => self.comparison()?,
        };
        LabelRequirement::new(&key, operator, values, &Path::ROOT).map_err(|errors| errors.to_string())
    }

    fn comparison(&mut self) -> Result<(Operator, Vec<String>), String> {
        let (token, word) = self.peek_raw();
        let operator = match token {
            Token::In => Operator::In,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            Token::NotIn => Operator::NotIn,
            Token::NotEquals => Operator::NotEquals,
            _ => return Err(format!("found '{word}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        self.at += 1;
        let mut values = match operator {
            Operator::In | Operator::NotIn => self.set()?,
            _ => vec![self.value()?],
        };
        values.sort_unstable();
        values.dedup();
        Ok((operator, values))
    }

    fn value(&mut self) -> Result<String, String> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next() {
            (Token::Identifier, word) => Ok(word),
            (_, word) => Err(format!("found '{word}', expected: identifier")),
        }
    }

    fn set(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            (Token::Open, _) => {}
            (_, word) => return Err(format!("found '{word}' expected: '('")),
        }
        match self.peek() {
            (Token::Close, _) => {
                self.at += 1;
                Ok(vec![String::new()])
            }
            (Token::Identifier | Token::Comma, _) => {
                let values = self.set_items()?;
                self.at += 1;
                Ok(values)
            }
            (_, word) => Err(format!("found '{word}', expected: ',', ')' or identifier")),
        }
    }

    /// Reads the items up to the closing parenthesis, which is not consumed. Missing items between commas are empty values.
    fn set_items(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            match self.next() {
                (Token::Identifier, word) => {
                    values.push(word);
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, word) => return Err(format!("found '{word}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek().0 {
                        Token::Close => {
                            values.push(String::new());
                            return Ok(values);
                        }
                        Token::Comma => values.push(String::new()),
                        _ => {}
                    }
                }
                (_, word) => return Err(format!("found '{word}', expected: ',', or identifier")),
            }
        }
    }
}

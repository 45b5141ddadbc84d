//! Field selectors (upstream `fields.Selector`): `a=b,c!=d`, with backslash escapes in values.

use std::fmt;

use compact_str::CompactString;

use super::Lookup;

/// The error for a text that is no field selector. The messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    /// A term has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole selector.
        selector: String,
        /// The term without an operator.
        term: String,
    },
    /// A backslash precedes another character than backslash, comma or equals sign.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A value contains an unescaped comma or equals sign; upstream prints its code point.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

/// One condition on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The path of the field, such as `spec.nodeName`.
    pub field: CompactString,
    /// The value that the field must have, or must not have.
    pub value: CompactString,
    /// Whether the field must equal the value; false for `!=`.
    pub equal: bool,
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, if self.equal { "=" } else { "!=" })?;
        for c in self.value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        Ok(())
    }
}

/// A conjunction of requirements; an empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Returns the selector that selects everything.
    #[must_use]
    pub const fn everything() -> Self {
        Self { requirements: Vec::new() }
    }

    /// Returns the selector of the objects that fulfil all of these requirements.
    #[must_use]
    pub const fn new(requirements: Vec<FieldRequirement>) -> Self {
        Self { requirements }
    }

    /// Returns the selector of the objects with `value` in `field`.
    pub fn equal(field: impl Into<CompactString>, value: impl Into<CompactString>) -> Self {
        Self::new(vec![FieldRequirement { field: field.into(), value: value.into(), equal: true }])
    }

    /// Reads the text form, as the query parameter `fieldSelector` holds it. Terms are sorted, as upstream does.
    ///
    /// # Errors
    /// [`FieldSelectorError`].
    pub fn parse(text: &str) -> Result<Self, FieldSelectorError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::with_capacity(terms.len());
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let wrong = || FieldSelectorError::Term { selector: text.to_owned(), term: term.to_owned() };
            let (field, equal, value) = split_term(term).ok_or_else(wrong)?;
            requirements.push(FieldRequirement { field: field.into(), value: unescape(value)?, equal });
        }
        Ok(Self { requirements })
    }

    /// Whether an object with these fields fulfils all requirements. A missing field counts as empty, as upstream.
    pub fn matches(&self, fields: &(impl Lookup + ?Sized)) -> bool {
        self.requirements.iter().all(|one| (fields.lookup(&one.field).unwrap_or_default() == one.value) == one.equal)
    }

    /// Whether the selector selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the requirements in order.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Returns the requirements in order.
    #[must_use]
    pub fn into_requirements(self) -> Vec<FieldRequirement> {
        self.requirements
    }

    /// Returns the single value that `field` must have, if the selector requires one; an index can then be used.
    #[must_use]
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|one| one.equal && one.field == field).map(|one| one.value.as_str())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, one) in self.requirements.iter().enumerate() {
            write!(f, "{}{one}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl std::str::FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Splits a selector at the commas that no backslash escapes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c: char| {
        let cut = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        cut
    })
    .collect()
}

/// Splits a term at its first operator into the field, whether the operator is `=` or `==`, and the escaped value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (i, c) in term.char_indices() {
        let (field, rest) = term.split_at_checked(i)?;
        if c == '!'
            && let Some(value) = rest.strip_prefix("!=")
        {
            return Some((field, false, value));
        }
        if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
            return Some((field, true, value));
        }
    }
    None
}

fn unescape(value: &str) -> Result<CompactString, FieldSelectorError> {
    let mut out = CompactString::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => return Err(FieldSelectorError::Escape(format!("\\{other}"))),
                None => return Err(FieldSelectorError::Escape("\\".to_owned())),
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped(c)),
            _ => out.push(c),
        }
    }
    Ok(out)
}

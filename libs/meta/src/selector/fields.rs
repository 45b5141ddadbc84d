//! Field selectors (upstream `fields.Selector`): `a=b,c!=d`, with backslash escapes in values.

use std::fmt;

use compact_str::CompactString;

use super::Lookup;

/// Why a text is no field selector. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    /// A term has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole text.
        selector: String,
        /// The part without operator.
        term: String,
    },
    /// A backslash stands before something else than backslash, comma or equals sign.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A comma or equals sign stands unescaped in a value; upstream prints its code point.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

/// One condition on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The path, such as `spec.nodeName`.
    pub field: CompactString,
    /// The value it must have, or must not have.
    pub value: CompactString,
    /// False for `!=`.
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

/// A conjunction of requirements; without any it selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Selects everything.
    #[must_use]
    pub const fn everything() -> Self {
        Self { requirements: Vec::new() }
    }

    /// Selects what fulfils all of these.
    #[must_use]
    pub const fn new(requirements: Vec<FieldRequirement>) -> Self {
        Self { requirements }
    }

    /// Selects what has `value` in `field`.
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

    /// Does an object with these fields fulfil all requirements? A missing field counts as empty, as upstream.
    pub fn matches(&self, fields: &(impl Lookup + ?Sized)) -> bool {
        self.requirements.iter().all(|one| (fields.lookup(&one.field).unwrap_or_default() == one.value) == one.equal)
    }

    /// True when it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements in order.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The one value `field` must have, if the selector says so; an index can then be used.
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

/// The parts between commas that no backslash escapes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c: char| {
        let cut = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        cut
    })
    .collect()
}

/// Field, whether it is `=` or `==`, and the escaped value, cut at the first operator.
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

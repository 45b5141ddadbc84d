//! Where a schema-directed walk reads from: JSON text or a generic tree.

use std::borrow::Cow;

/// Kind of the next value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    Str,
    List,
    Map,
}

impl Kind {
    /// Go's word for it in type errors.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Number => "number",
            Self::Str => "string",
            Self::List => "array",
            Self::Map => "object",
        }
    }
}

/// A number: whole and in the range of `i64`, or its text.
pub(crate) enum Num<'de> {
    Int(i64),
    Text(Cow<'de, str>),
}

/// Why a walk stops at once.
#[derive(Debug)]
pub(crate) enum Fail {
    /// Not well-formed; the text is worked out afterwards.
    Syntax,
    /// Nested too deeply.
    Depth,
    /// A value that its type's own decoder refuses. Boxed twice so that results fit two registers.
    Value(Box<Box<str>>),
}

impl Fail {
    #[cold]
    pub(crate) fn value(text: impl Into<Box<str>>) -> Self {
        Self::Value(Box::new(text.into()))
    }
}

/// A reader of one value. After `peek` said what comes, exactly one matching call takes it.
pub(crate) trait Source<'de> {
    /// What comes next.
    fn peek(&mut self) -> Result<Kind, Fail>;
    /// Takes `null`.
    fn null(&mut self) -> Result<(), Fail>;
    /// Takes a boolean.
    fn bool(&mut self) -> Result<bool, Fail>;
    /// Takes a number.
    fn number(&mut self) -> Result<Num<'de>, Fail>;
    /// Takes a text.
    fn str(&mut self) -> Result<Cow<'de, str>, Fail>;
    /// Enters a list or map.
    fn begin(&mut self);
    /// Moves to the next item; `false` at the end, which leaves the list.
    fn next_item(&mut self, first: bool) -> Result<bool, Fail>;
    /// Moves to the next entry and gives its key; `None` at the end, which leaves the map.
    fn next_key(&mut self, first: bool) -> Result<Option<Cow<'de, str>>, Fail>;
    /// Skips any value; `depth` is how deep it lies.
    fn skip(&mut self, depth: u32) -> Result<(), Fail>;
    /// Takes any value as compact JSON text; a text value with its quotes.
    fn raw(&mut self, depth: u32) -> Result<Cow<'de, str>, Fail>;
}

//! The input of a schema-directed walk: JSON text or a generic tree.

use std::borrow::Cow;

/// The kind of the next value.
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
    /// Returns Go's word for the kind in type errors.
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

/// An error that stops a walk at once.
#[derive(Debug)]
pub(crate) enum Fail {
    /// The text is malformed; the message is found afterwards.
    Syntax,
    /// The nesting is too deep.
    Depth,
    /// A value's own decoder refuses the value. Boxed twice so that results fit in two registers.
    Value(Box<Box<str>>),
}

impl Fail {
    #[cold]
    pub(crate) fn value(text: impl Into<Box<str>>) -> Self {
        Self::Value(Box::new(text.into()))
    }
}

/// A reader of one value. After `peek` returned a kind, exactly one matching call consumes the value.
pub(crate) trait Source<'de> {
    /// Returns the kind of the next value.
    fn peek(&mut self) -> Result<Kind, Fail>;
    /// Consumes `null`.
    fn null(&mut self) -> Result<(), Fail>;
    /// Consumes a boolean.
    fn bool(&mut self) -> Result<bool, Fail>;
    /// Consumes a number.
    fn number(&mut self) -> Result<Num<'de>, Fail>;
    /// Consumes a text.
    fn str(&mut self) -> Result<Cow<'de, str>, Fail>;
    /// Enters a list or map.
    fn begin(&mut self);
    /// Moves to the next item; returns `false` at the end of the list, which leaves the list.
    fn next_item(&mut self, first: bool) -> Result<bool, Fail>;
    /// Moves to the next entry and returns its key; `None` at the end of the map, which leaves the map.
    fn next_key(&mut self, first: bool) -> Result<Option<Cow<'de, str>>, Fail>;
    /// Skips any value at depth `depth`.
    fn skip(&mut self, depth: u32) -> Result<(), Fail>;
    /// Consumes any value and returns compact JSON text; a text value has its quotes.
    fn raw(&mut self, depth: u32) -> Result<Cow<'de, str>, Fail>;
}

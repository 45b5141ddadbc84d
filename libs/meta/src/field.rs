//! Paths to fields and the errors that validation reports at them (upstream `field.Path`, `field.Error`).
//!
//! A [`Path`] lives on the stack and borrows its parent, so walking an object costs nothing until an error is made.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use crate::cause::Cause;
use crate::quote::quote;

/// The position of a value inside an object. Prints as `spec.containers[0].image` or `metadata.annotations[foo]`.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Segment<'a> {
    Root,
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The path of the object itself. Prints as the empty text; child paths print without a leading dot.
    pub const ROOT: Path<'static> = Path { parent: None, segment: Segment::Root };

    /// Makes a path that starts with `name`.
    #[must_use]
    pub const fn new(name: &'a str) -> Self {
        Path { parent: None, segment: Segment::Name(name) }
    }

    /// Returns the path of the field `name` below this path. `name` may be dotted: `child("spec.template")`.
    #[must_use]
    pub const fn child<'b>(&'b self, name: &'b str) -> Path<'b>
    where
        'a: 'b,
    {
        Path { parent: Some(self), segment: Segment::Name(name) }
    }

    /// Returns the path of the list item `index` below this path.
    #[must_use]
    pub const fn index<'b>(&'b self, index: usize) -> Path<'b>
    where
        'a: 'b,
    {
        Path { parent: Some(self), segment: Segment::Index(index) }
    }

    /// Returns the path of the map entry `key` below this path.
    #[must_use]
    pub const fn key<'b>(&'b self, key: &'b str) -> Path<'b>
    where
        'a: 'b,
    {
        Path { parent: Some(self), segment: Segment::Key(key) }
    }

    fn write(&self, f: &mut impl fmt::Write) -> Result<bool, fmt::Error> {
        let started = match self.parent {
            Some(parent) => parent.write(f)?,
            None => false,
        };
        match self.segment {
            Segment::Root => return Ok(started),
            Segment::Name(name) => {
                if started {
                    f.write_char('.')?;
                }
                f.write_str(name)?;
            }
            Segment::Index(index) => write!(f, "[{index}]")?,
            Segment::Key(key) => write!(f, "[{key}]")?,
        }
        Ok(true)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f).map(|_| ())
    }
}

/// The kind of rule that a field broke. [`FieldErrorKind::as_str`] is the `reason` of the cause in a Status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// The value refers to something that does not exist.
    NotFound,
    /// A required value is missing.
    Required,
    /// A value that must be unique is not.
    Duplicate,
    /// A malformed value.
    Invalid,
    /// A value outside an enumeration.
    NotSupported,
    /// A value that is well formed but not allowed here.
    Forbidden,
    /// A text longer than its limit.
    TooLong,
    /// A list with more items than its limit.
    TooMany,
    /// An internal error of the server.
    Internal,
    /// A value of the wrong type.
    TypeInvalid,
}

impl FieldErrorKind {
    /// Returns the machine-readable name of the kind (upstream `field.ErrorType`).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// Returns the name of the kind in messages for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    const fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::Internal)
    }
}

/// A value that an error message shows: text is quoted as Go's `%q`, numbers and booleans are printed plain, anything else is JSON.
pub trait BadValue {
    /// Returns the text to print after the kind, or `None` to print no value.
    fn render(&self) -> Option<String>;
}

impl<T: BadValue + ?Sized> BadValue for &T {
    fn render(&self) -> Option<String> {
        (**self).render()
    }
}

impl BadValue for str {
    fn render(&self) -> Option<String> {
        Some(quote(self))
    }
}

impl BadValue for String {
    fn render(&self) -> Option<String> {
        self.as_str().render()
    }
}

impl BadValue for compact_str::CompactString {
    fn render(&self) -> Option<String> {
        self.as_str().render()
    }
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        impl BadValue for $t {
            fn render(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )*};
}
plain!(bool, i32, i64, u16, u32, u64, usize);

/// A list of texts, shown as a JSON array.
impl BadValue for [&str] {
    fn render(&self) -> Option<String> {
        let mut out = String::from("[");
        for (i, item) in self.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            out.push_str(&quote(item));
        }
        out.push(']');
        Some(out)
    }
}

/// A value that is printed as given: the JSON text of a struct, list or map, or a quantity in quotes.
#[derive(Debug, Clone, Copy)]
pub struct Raw<T>(pub T);

impl<T: fmt::Display> BadValue for Raw<T> {
    fn render(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

/// An omitted value: only the kind and the detail are printed (upstream `omitValue`).
#[derive(Debug, Clone, Copy)]
pub struct Omit;

impl BadValue for Omit {
    fn render(&self) -> Option<String> {
        None
    }
}

/// One rule broken at one field. Prints as `spec.y: Invalid value: "x": detail`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The kind of the broken rule.
    pub kind: FieldErrorKind,
    /// The path of the field, printed.
    pub field: String,
    /// The offending value, rendered; `None` when the message shows no value.
    pub value: Option<String>,
    /// The detail of the message; may be empty.
    pub detail: String,
}

impl FieldError {
    fn make(kind: FieldErrorKind, path: &Path<'_>, value: Option<String>, detail: impl Into<String>) -> Self {
        Self { kind, field: path.to_string(), value, detail: detail.into() }
    }

    /// Returns the bytes of the error's texts.
    fn size(&self) -> usize {
        self.field.len() + self.value.as_ref().map_or(0, String::len) + self.detail.len()
    }

    /// Makes the error for a required value that is missing. `detail` may be empty.
    pub fn required(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::make(FieldErrorKind::Required, path, None, detail)
    }

    /// Makes the error for a malformed value.
    pub fn invalid(path: &Path<'_>, value: impl BadValue, detail: impl Into<String>) -> Self {
        Self::make(FieldErrorKind::Invalid, path, value.render(), detail)
    }

    /// Makes the error for a value of the wrong type.
    pub fn type_invalid(path: &Path<'_>, value: impl BadValue, detail: impl Into<String>) -> Self {
        Self::make(FieldErrorKind::TypeInvalid, path, value.render(), detail)
    }

    /// Makes the error for a value that must be unique and is not.
    pub fn duplicate(path: &Path<'_>, value: impl BadValue) -> Self {
        Self::make(FieldErrorKind::Duplicate, path, value.render(), "")
    }

    /// Makes the error for a value that is not allowed in this position.
    pub fn forbidden(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::make(FieldErrorKind::Forbidden, path, None, detail)
    }

    /// Makes the error for a value outside the enumeration `supported`, which is listed in the given order (upstream mostly sorts).
    pub fn not_supported(path: &Path<'_>, value: impl BadValue, supported: &[&str]) -> Self {
        let mut detail = String::new();
        if !supported.is_empty() {
            detail.push_str("supported values: ");
            for (i, one) in supported.iter().enumerate() {
                if i > 0 {
                    detail.push_str(", ");
                }
                detail.push_str(&quote(one));
            }
        }
        Self::make(FieldErrorKind::NotSupported, path, value.render(), detail)
    }

    /// Makes the error for a value that refers to something that does not exist.
    pub fn not_found(path: &Path<'_>, value: impl BadValue) -> Self {
        Self::make(FieldErrorKind::NotFound, path, value.render(), "")
    }

    /// Makes the error for a text longer than `max` bytes.
    #[must_use]
    pub fn too_long(path: &Path<'_>, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::make(FieldErrorKind::TooLong, path, None, format!("may not be more than {max} {unit}"))
    }

    /// Makes the error for a list of `actual` items where at most `max` are allowed.
    #[must_use]
    pub fn too_many(path: &Path<'_>, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::make(FieldErrorKind::TooMany, path, actual.render(), format!("must have at most {max} {unit}"))
    }

    /// Makes the error for an internal error of the server during a field check.
    pub fn internal(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::make(FieldErrorKind::Internal, path, None, detail)
    }

    /// Returns the message without the field, as a Status cause carries it.
    #[must_use]
    pub fn body(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_body(&mut out);
        out
    }

    fn write_body(&self, f: &mut impl fmt::Write) -> fmt::Result {
        f.write_str(self.kind.text())?;
        if self.kind.shows_value()
            && let Some(value) = &self.value
        {
            write!(f, ": {value}")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }

    /// Returns the cause that a Status lists for this error.
    #[must_use]
    pub fn to_cause(&self) -> Cause {
        Cause { reason: self.kind.as_str().into(), message: self.body(), field: self.field.clone() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.field)?;
        self.write_body(f)
    }
}

impl std::error::Error for FieldError {}

/// The errors of one validation, in the order of discovery. Prints as upstream's aggregate: one error alone, several as `[a, b]`, each text once.
///
/// The total length of the texts is bounded: where each item of a large list has an error that shows the whole list, the answer would grow with the square of the
/// body. Errors after [`ErrorList::MAX_BYTES`] are left out; the request is refused anyway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorList {
    errors: Vec<FieldError>,
    /// Bytes of the texts of all errors.
    size: usize,
}

impl ErrorList {
    /// The total text length in bytes from which on the list takes no further error. The first error is always kept, however long.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Makes an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { errors: Vec::new(), size: 0 }
    }

    /// Adds an error, unless the list [is full](ErrorList::is_full).
    pub fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            self.size += error.size();
            self.errors.push(error);
        }
    }

    /// Whether the list takes no further error. Rules that show a whole list at each of its items check this before formatting the text.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.size >= Self::MAX_BYTES
    }

    /// Whether the list has no error.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns the number of errors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.errors.len()
    }

    /// Returns the errors in order.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.errors.iter()
    }

    /// Returns the errors as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[FieldError] {
        &self.errors
    }

    /// Returns the causes of a Status, one per error, duplicates included as upstream does.
    #[must_use]
    pub fn to_causes(&self) -> Vec<Cause> {
        to_causes(&self.errors)
    }
}

impl fmt::Display for ErrorList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&aggregate(&self.errors))
    }
}

impl From<Vec<FieldError>> for ErrorList {
    fn from(errors: Vec<FieldError>) -> Self {
        errors.into_iter().collect()
    }
}

impl From<FieldError> for ErrorList {
    fn from(error: FieldError) -> Self {
        std::iter::once(error).collect()
    }
}

impl Extend<FieldError> for ErrorList {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        errors.into_iter().for_each(|error| self.push(error));
    }
}

impl FromIterator<FieldError> for ErrorList {
    fn from_iter<I: IntoIterator<Item = FieldError>>(errors: I) -> Self {
        let mut list = Self::new();
        list.extend(errors);
        list
    }
}

impl IntoIterator for ErrorList {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

impl<'a> IntoIterator for &'a ErrorList {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.iter()
    }
}

/// Returns the causes for a slice of errors.
#[must_use]
pub fn to_causes(errors: &[FieldError]) -> Vec<Cause> {
    errors.iter().map(FieldError::to_cause).collect()
}

/// Returns the one-line text for a slice of errors, each text once (upstream `ErrorList.ToAggregate`).
#[must_use]
pub fn aggregate(errors: &[FieldError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let mut seen = HashSet::with_capacity(texts.len());
    let distinct: Vec<&str> = texts.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect();
    if let [one] = distinct.as_slice() {
        return (*one).to_owned();
    }
    let mut out = String::from("[");
    for (i, one) in distinct.iter().enumerate() {
        let sep = if i > 0 { ", " } else { "" };
        let _ = write!(out, "{sep}{one}");
    }
    out.push(']');
    out
}

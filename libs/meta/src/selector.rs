//! Label and field selectors, which choose the objects of a list, a watch or a controller.

mod fields;
mod labels;
mod lex;
mod matcher;

pub use fields::{FieldRequirement, FieldSelector, FieldSelectorError};
pub use labels::{LabelRequirement, LabelSelector, LabelSelectorError, Operator};
pub use matcher::{FieldMatcher, LabelMatcher};

/// Looks up a label or field by name. Implemented for slices of pairs and for closures.
pub trait Lookup {
    /// Returns the value, or `None` when the object has no such label or field.
    fn lookup(&self, name: &str) -> Option<&str>;
}

impl Lookup for [(&str, &str)] {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

impl<const N: usize> Lookup for [(&str, &str); N] {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.as_slice().lookup(name)
    }
}

impl Lookup for [(compact_str::CompactString, compact_str::CompactString)] {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl<S: std::hash::BuildHasher> Lookup for std::collections::HashMap<String, String, S> {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.get(name).map(String::as_str)
    }
}

impl Lookup for std::collections::BTreeMap<String, String> {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.get(name).map(String::as_str)
    }
}

/// A [`Lookup`] that calls a closure.
#[derive(Debug, Clone, Copy)]
pub struct By<'a, F> {
    find: F,
    values: std::marker::PhantomData<&'a str>,
}

impl<'a, F: Fn(&str) -> Option<&'a str>> By<'a, F> {
    /// Wraps `find`, whose results live as long as the object that `find` reads.
    pub const fn new(find: F) -> Self {
        Self { find, values: std::marker::PhantomData }
    }
}

impl<'a, F: Fn(&str) -> Option<&'a str>> Lookup for By<'a, F> {
    fn lookup(&self, name: &str) -> Option<&str> {
        (self.find)(name)
    }
}

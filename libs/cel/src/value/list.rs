//! List values.

use std::sync::Arc;

use oarlock_schema::Value as Tree;

use super::Value;
use crate::error::EvalError;
use crate::limits;

/// A list of an object, or made by an expression.
#[derive(Clone, Debug)]
pub struct List<'a>(Items<'a>);

#[derive(Clone, Debug)]
enum Items<'a> {
    Tree(&'a [Tree]),
    Owned(Arc<Owned<'a>>),
}

#[derive(Debug)]
struct Owned<'a> {
    items: Vec<Value<'a>>,
    depth: usize,
}

impl<'a> List<'a> {
    /// Makes a list of the items of an object's list.
    #[must_use]
    pub fn tree(items: &'a [Tree]) -> Self {
        Self(Items::Tree(items))
    }

    /// Makes a list of values.
    ///
    /// # Errors
    /// When the nesting exceeds [`limits::VALUE_DEPTH`].
    pub fn new(items: Vec<Value<'a>>) -> Result<Self, EvalError> {
        let depth = 1 + items.iter().map(Value::depth).max().unwrap_or(0);
        if depth > limits::VALUE_DEPTH {
            return Err(EvalError::failed("values are nested too deeply"));
        }
        Ok(Self(Items::Owned(Arc::new(Owned { items, depth }))))
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Items::Tree(items) => items.len(),
            Items::Owned(owned) => owned.items.len(),
        }
    }

    /// Whether the list has no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the item at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        match &self.0 {
            Items::Tree(items) => items.get(index).map(Value::tree),
            Items::Owned(owned) => owned.items.get(index).cloned(),
        }
    }

    /// Returns the items.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Value<'a>> + ExactSizeIterator {
        // The index is below the length.
        (0..self.len()).map(|index| self.get(index).unwrap_or(Value::Null))
    }

    pub(crate) fn depth(&self) -> usize {
        match &self.0 {
            Items::Tree(_) => 1,
            Items::Owned(owned) => owned.depth,
        }
    }
}

//! Evaluates comprehensions.

use std::collections::BTreeMap;

use super::Interpreter;
use crate::ast::What;
use crate::error::EvalError;
use crate::plan::Fold;
use crate::value::{Key, List, Map, Value, sort_by};

/// The cost of one step of a comprehension besides its body.
const STEP_COST: usize = 2;
/// The additional cost of a step that keeps an element: upstream makes a list of one element.
const KEEP_COST: usize = 10;

impl<'a> Interpreter<'_, 'a> {
    pub(super) fn fold(&mut self, fold: &Fold) -> Result<Value<'a>, EvalError> {
        let range = self.eval(&fold.range)?;
        self.context.charge(1)?;
        let mut state = State::new(fold.what);
        match range {
            Value::List(list) => {
                for (index, item) in list.iter().enumerate() {
                    let (first, second) = if fold.pairs { (Value::count(index), item) } else { (item, Value::Null) };
                    if self.step(fold, &mut state, first, second)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    if self.step(fold, &mut state, key.value(), value)? {
                        break;
                    }
                }
            }
            other => {
                return Err(EvalError::Failed(format!("got '{}', expected iterable type", foreign_name(&other))));
            }
        }
        state.finish()
    }

    /// Handles one element; returns true when the result is known.
    fn step(
        &mut self,
        fold: &Fold,
        state: &mut State<'a>,
        first: Value<'a>,
        second: Value<'a>,
    ) -> Result<bool, EvalError> {
        self.context.charge(STEP_COST)?;
        let before = self.locals.len();
        let element = first.clone();
        self.locals.push(first);
        if fold.pairs {
            self.locals.push(second);
        }
        let result = self.element(fold, state, element);
        self.locals.truncate(before);
        result
    }

    fn element(&mut self, fold: &Fold, state: &mut State<'a>, element: Value<'a>) -> Result<bool, EvalError> {
        if let Some(filter) = &fold.filter
            && !self.truth(filter)??
        {
            return Ok(false);
        }
        match fold.what {
            What::All | What::Exists => {
                let decides = fold.what == What::Exists;
                match self.truth(&fold.body)? {
                    Ok(truth) if truth == decides => {
                        state.decided = true;
                        return Ok(true);
                    }
                    Ok(_) => {}
                    Err(error) => state.error = state.error.take().or(Some(error)),
                }
            }
            What::ExistsOne => state.found += usize::from(self.truth(&fold.body)??),
            What::Filter => {
                if self.truth(&fold.body)?? {
                    self.context.charge(KEEP_COST)?;
                    state.items.push(element);
                }
            }
            What::Map => {
                let item = self.eval(&fold.body)?;
                self.context.charge(KEEP_COST)?;
                state.items.push(item);
            }
            What::SortBy => {
                let key = self.eval(&fold.body)?;
                self.context.charge(KEEP_COST)?;
                state.sorted.push((key, element));
            }
            What::TransformMap => {
                let value = self.eval(&fold.body)?;
                self.context.charge(KEEP_COST)?;
                state.insert(element, value)?;
            }
            What::TransformMapEntry => {
                let Value::Map(entry) = self.eval(&fold.body)? else { return Err(EvalError::no_overload()) };
                self.context.charge(entry.len())?;
                for (key, value) in entry.iter() {
                    state.insert(key.value(), value)?;
                }
            }
        }
        Ok(false)
    }
}

/// Returns the name of a value that is no list and no map in cel-go's texts: its Go type.
fn foreign_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        Value::List(_) | Value::Map(_) | Value::Opaque(_) => value.type_of().name(),
    }
}

/// The intermediate result of a comprehension.
struct State<'a> {
    what: What,
    decided: bool,
    error: Option<EvalError>,
    found: usize,
    items: Vec<Value<'a>>,
    sorted: Vec<(Value<'a>, Value<'a>)>,
    entries: BTreeMap<Key<'a>, Value<'a>>,
}

impl<'a> State<'a> {
    fn new(what: What) -> Self {
        let (items, sorted, entries) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { what, decided: false, error: None, found: 0, items, sorted, entries }
    }

    fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> Result<(), EvalError> {
        let key = Key::of(&key).ok_or_else(|| EvalError::failed("unsupported key type"))?;
        if self.entries.contains_key(&key) {
            return Err(EvalError::Failed(format!("insert failed: key {key} already exists")));
        }
        self.entries.insert(key, value);
        Ok(())
    }

    fn finish(self) -> Result<Value<'a>, EvalError> {
        match self.what {
            What::All | What::Exists => match self.error {
                // An element that fails is ignored if another one decides.
                Some(error) if !self.decided => Err(error),
                _ => Ok(Value::Bool(self.decided == (self.what == What::Exists))),
            },
            What::ExistsOne => Ok(Value::Bool(self.found == 1)),
            What::Map | What::Filter => Ok(Value::List(List::new(self.items)?)),
            What::SortBy => Ok(Value::List(List::new(sort_by(self.sorted)?)?)),
            What::TransformMap | What::TransformMapEntry => Ok(Value::Map(Map::new(self.entries)?)),
        }
    }
}

//! The interpreter: evaluates a plan.

mod folds;

use crate::ast::Access;
use crate::context::Context;
use crate::error::EvalError;
use crate::limits;
use crate::overload::{Cost, Overload};
use crate::plan::Node;
use crate::value::{Key, List, Map, Value};

/// The state of one evaluation.
pub(crate) struct Interpreter<'c, 'a> {
    pub(crate) context: Context<'c, 'a>,
    /// Values of the names that the expression defines, innermost last.
    pub(crate) locals: Vec<Value<'a>>,
}

impl<'a> Interpreter<'_, 'a> {
    pub(crate) fn eval(&mut self, node: &Node) -> Result<Value<'a>, EvalError> {
        match node {
            Node::Const(value) => Ok(value.clone()),
            node => limits::level(|| self.inner(node)),
        }
    }

    fn inner(&mut self, node: &Node) -> Result<Value<'a>, EvalError> {
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Var(name) => {
                self.context.charge(1)?;
                self.context.activation.variable(name, self.context.budget)
            }
            Node::Local(place) => {
                self.context.charge(1)?;
                self.locals.get(*place).cloned().ok_or_else(EvalError::no_overload)
            }
            Node::Select { operand, field, access } => {
                let operand = self.eval(operand)?;
                self.context.charge(1)?;
                select(operand, field, *access)
            }
            Node::Call { function, candidates, args } => self.call(function, candidates, args),
            Node::And(a, b) => self.logical(a, b, false),
            Node::Or(a, b) => self.logical(a, b, true),
            Node::Condition(parts) => {
                let [test, then, otherwise] = &**parts;
                let test = self.eval(test)?.as_bool().ok_or_else(EvalError::no_overload)?;
                self.eval(if test { then } else { otherwise })
            }
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Fold(fold) => self.fold(fold),
            Node::Bind(parts) => {
                let [init, body] = &**parts;
                let init = self.eval(init)?;
                self.within([init], body)
            }
            Node::OptMap { operand, body, flat } => {
                let Value::Optional(held) = self.eval(operand)? else { return Err(EvalError::no_overload()) };
                let Some(held) = held else { return Ok(Value::Optional(None)) };
                let result = self.within([(*held).clone()], body)?;
                if *flat { Ok(result) } else { Ok(Value::some(result)) }
            }
        }
    }

    /// Evaluates with additional names.
    pub(crate) fn within<const N: usize>(
        &mut self,
        names: [Value<'a>; N],
        body: &Node,
    ) -> Result<Value<'a>, EvalError> {
        let before = self.locals.len();
        self.locals.extend(names);
        let result = self.eval(body);
        self.locals.truncate(before);
        result
    }

    fn call(&mut self, function: &str, candidates: &[&Overload], args: &[Node]) -> Result<Value<'a>, EvalError> {
        let mut values: [Value<'a>; 4] = [const { Value::Null }; 4];
        let Some(values) = values.get_mut(..args.len()) else { return Err(EvalError::no_overload()) };
        for (slot, arg) in values.iter_mut().zip(args) {
            *slot = self.eval(arg)?;
        }
        // Which values may be an index is decided by the list or map.
        let indexing = function.starts_with("_[");
        let fitting = candidates.iter().find(|candidate| candidate.signature.accepts(values, indexing));
        let Some(overload) = fitting else {
            self.context.charge(1)?;
            let operator = function.starts_with(|c: char| !c.is_ascii_alphabetic());
            let shown = if operator { String::new() } else { format!(": {function}") };
            return Err(EvalError::Failed(format!("no such overload{shown}")));
        };
        self.context.charge(1)?;
        let scan = |value: &Value<'_>| match value {
            Value::String(_) | Value::Bytes(_) => value.size() / 10,
            Value::List(_) | Value::Map(_) => value.size(),
            _ => 0,
        };
        match overload.cost {
            Cost::One => {}
            Cost::Scan => self.context.charge(values.iter().map(scan).sum())?,
            Cost::Product => {
                let (first, rest) = values.split_first().map_or((0, 0), |(a, b)| (scan(a), b.iter().map(scan).sum()));
                self.context.charge(first.saturating_add(1).saturating_mul(rest + 1))?;
            }
            Cost::Ask => self.context.charge(350_000)?,
        }
        (overload.run)(&mut self.context, values)
    }

    /// Evaluates `&&` or `||`: one side that decides is enough, even if the other side fails.
    fn logical(&mut self, a: &Node, b: &Node, decides: bool) -> Result<Value<'a>, EvalError> {
        let first = self.truth(a)?;
        if first == Ok(decides) {
            return Ok(Value::Bool(decides));
        }
        let second = self.truth(b)?;
        if second == Ok(decides) {
            return Ok(Value::Bool(decides));
        }
        first.and(second).map(Value::Bool)
    }

    /// Evaluates a boolean. The inner error is a failure that the operators may absorb; the outer one ends the evaluation.
    pub(crate) fn truth(&mut self, node: &Node) -> Result<Result<bool, EvalError>, EvalError> {
        match self.eval(node) {
            Ok(value) => Ok(value.as_bool().ok_or_else(EvalError::no_overload)),
            Err(error) if error.is_final() => Err(error),
            Err(error) => Ok(Err(error)),
        }
    }

    fn list(&mut self, items: &[(Node, bool)]) -> Result<Value<'a>, EvalError> {
        self.context.charge(10)?;
        let mut values = Vec::with_capacity(items.len());
        for (item, optional) in items {
            let value = self.eval(item)?;
            match (optional, value) {
                (false, value) => values.push(value),
                (true, Value::Optional(held)) => values.extend(held.map(|held| (*held).clone())),
                (true, _) => return Err(EvalError::no_overload()),
            }
        }
        Ok(Value::List(List::new(values)?))
    }

    fn map(&mut self, entries: &[(Node, Node, bool)]) -> Result<Value<'a>, EvalError> {
        self.context.charge(30)?;
        let mut map = std::collections::BTreeMap::new();
        for (key, value, optional) in entries {
            let key = self.eval(key)?;
            let key = Key::of(&key).ok_or_else(|| EvalError::failed("unsupported key type"))?;
            let value = match (optional, self.eval(value)?) {
                (false, value) => value,
                (true, Value::Optional(None)) => continue,
                (true, Value::Optional(Some(held))) => (*held).clone(),
                (true, _) => return Err(EvalError::no_overload()),
            };
            map.insert(key, value);
        }
        Ok(Value::Map(Map::new(map)?))
    }
}

/// Selects a field of a value. Within an optional a missing field gives none.
fn select<'a>(operand: Value<'a>, field: &str, access: Access) -> Result<Value<'a>, EvalError> {
    let (map, optional) = match operand {
        Value::Map(map) => (map, access == Access::Optional),
        Value::Optional(None) if access == Access::Test => return Ok(Value::Bool(false)),
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => match &*inner {
            Value::Map(map) => (map.clone(), true),
            _ => return Err(EvalError::no_key(field)),
        },
        _ if access == Access::Test => return Ok(Value::Bool(false)),
        _ => return Err(EvalError::no_key(field)),
    };
    let found = map.field(field);
    match (access, found) {
        (Access::Test, found) => Ok(Value::Bool(found.is_some())),
        (_, Some(value)) if optional => Ok(Value::some(value)),
        (_, Some(value)) => Ok(value),
        (_, None) if optional => Ok(Value::Optional(None)),
        (_, None) => Err(EvalError::no_key(field)),
    }
}

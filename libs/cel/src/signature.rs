//! Parses signatures: `list(T).indexOf(T): int`, `sets.contains(list(T), list(T)): bool`, `_+_(int, int): int`.

use crate::types::Type;
use crate::value::Value;

/// The parameter and result types of a function.
#[derive(Debug)]
pub(crate) struct Signature {
    /// Whether the function is called as a method of its first parameter.
    pub(crate) member: bool,
    pub(crate) params: Vec<Type>,
    pub(crate) result: Type,
    /// The number of type parameters.
    pub(crate) vars: u32,
}

impl Signature {
    /// Whether the arguments, or only the first of them, match as far as the values show: the function must check the content of lists and maps itself.
    pub(crate) fn accepts(&self, args: &[Value<'_>], only_first: bool) -> bool {
        let looked_at = if only_first { 1 } else { args.len() };
        let mut pairs = self.params.iter().zip(args).take(looked_at);
        self.params.len() == args.len() && pairs.all(|(param, arg)| accepts(param, arg))
    }
}

fn accepts(param: &Type, arg: &Value<'_>) -> bool {
    match (param, arg) {
        (Type::Dyn | Type::Var(_), _)
        | (Type::Null, Value::Null)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::List(_), Value::List(_))
        | (Type::Map(..), Value::Map(_))
        | (Type::Type(_), Value::Type(_)) => true,
        (Type::Optional(inner), Value::Optional(held)) => held.as_ref().is_none_or(|held| accepts(inner, held)),
        (Type::Opaque(name), Value::Opaque(opaque)) => *name == opaque.type_name(),
        _ => false,
    }
}

/// Parses a signature with the function's name.
pub(crate) fn read(text: &'static str) -> Option<(&'static str, Signature)> {
    let mut reader = Reader { rest: text, vars: Vec::new() };
    // A method begins with the type of its receiver and a dot, a function with its name, which may contain dots too.
    let (head, result) = text.rsplit_once(": ")?;
    let open = opening(head)?;
    let (before, params) = (head.get(..open)?, head.get(open + 1..head.len() - 1)?);
    let (receiver, name) = match before.rsplit_once('.') {
        Some((receiver, name)) if !NAMESPACES.contains(&receiver) => (Some(receiver), name),
        _ => (None, before),
    };
    let mut types = Vec::new();
    for part in [receiver.unwrap_or(""), params] {
        reader.rest = part;
        while !reader.rest.is_empty() {
            types.push(reader.ty()?);
            reader.rest = reader.rest.strip_prefix(", ").unwrap_or(reader.rest);
        }
    }
    reader.rest = result;
    let result = reader.ty()?;
    let vars = u32::try_from(reader.vars.len()).ok()?;
    reader.rest.is_empty().then_some((name, Signature { member: receiver.is_some(), params: types, result, vars }))
}

const NAMESPACES: &[&str] = &["optional", "sets", "ip", "format", "lists", "strings"];

/// Returns the position of the opening parenthesis whose counterpart is at the end.
fn opening(head: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in head.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

struct Reader {
    rest: &'static str,
    vars: Vec<&'static str>,
}

impl Reader {
    fn ty(&mut self) -> Option<Type> {
        let len = self.rest.find(['(', ')', ',']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(match word {
            "list" => Type::list(self.argument()?),
            "optional_type" => Type::optional(self.argument()?),
            "type" => Type::type_of(self.argument()?),
            "map" => {
                self.rest = self.rest.strip_prefix('(')?;
                let keys = self.ty()?;
                self.rest = self.rest.strip_prefix(", ")?;
                let values = self.ty()?;
                self.rest = self.rest.strip_prefix(')')?;
                Type::map(keys, values)
            }
            "dyn" => Type::Dyn,
            "timestamp" => Type::Timestamp,
            "duration" => Type::Duration,
            word if word.len() == 1 => {
                let place = self.vars.iter().position(|var| *var == word).unwrap_or_else(|| {
                    self.vars.push(word);
                    self.vars.len() - 1
                });
                Type::Var(u32::try_from(place).ok()?)
            }
            word if word.contains('.') => Type::Opaque(word),
            word => Type::named(word)?,
        })
    }

    fn argument(&mut self) -> Option<Type> {
        self.rest = self.rest.strip_prefix('(')?;
        let inner = self.ty()?;
        self.rest = self.rest.strip_prefix(')')?;
        Some(inner)
    }
}

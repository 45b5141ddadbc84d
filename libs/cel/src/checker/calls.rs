//! Checks calls: resolves the possible overloads.

use super::{Checker, Typed};
use crate::ast::Expr;
use crate::functions;
use crate::overload::Overload;
use crate::plan::Node;
use crate::signature::Signature;
use crate::types::Type;
use crate::value::Value;

/// Functions with an argument that is checked at compile time if the argument is a literal, with the position of the argument.
const LITERALS: &[(&str, usize)] = &[("duration", 0), ("timestamp", 0), ("matches", 1), ("find", 1), ("findAll", 1)];

impl Checker<'_> {
    pub(super) fn call(&mut self, at: usize, function: String, target: Option<Expr>, args: Vec<Expr>) -> Typed {
        let (function, target) = self.in_namespace(function, target);
        let member = target.is_some();
        let (mut nodes, mut types) = (Vec::new(), Vec::new());
        let mut places = Vec::new();
        let around = self.mixed;
        for (place, expr) in target.into_iter().chain(args).enumerate() {
            places.push(expr.at);
            self.mixed = around || (function == "format" && place > 0);
            let (node, ty) = self.expr(expr);
            self.mixed = around;
            nodes.push(node);
            types.push(ty);
        }
        let function = function.trim_start_matches('.');
        if !functions::exists(function) {
            return (self.undeclared(at, function), Type::Error);
        }
        self.literal(function, &nodes, &places);
        let all = functions::named(function, member);
        let Some((candidates, result)) = self.resolve(&all, &types) else {
            let why = no_overload(function, member, types.iter().map(|ty| self.types.settle(ty)));
            return (Node::Const(Value::Null), self.wrong(at, why));
        };
        (Node::Call { function: function.into(), candidates, args: nodes.into() }, result)
    }

    /// Resolves `sets.contains(…)` as a function with a qualified name instead of a method of a variable `sets`.
    fn in_namespace(&self, function: String, target: Option<Expr>) -> (String, Option<Expr>) {
        let Some(target) = target else { return (function, None) };
        let name = self.qualified(&target).map(|prefix| format!("{prefix}.{function}"));
        match name {
            Some(name) if functions::exists(name.trim_start_matches('.')) => (name, None),
            _ => (function, Some(target)),
        }
    }

    pub(super) fn overloads(&self, function: &str, member: bool) -> Box<[&'static Overload]> {
        functions::named(function, member).into()
    }

    /// Returns the matching overloads and the type of the result, which is dyn if the overloads' types differ.
    fn resolve(&mut self, all: &[&'static Overload], args: &[Type]) -> Option<(Box<[&'static Overload]>, Type)> {
        let (mut candidates, mut result) = (Vec::new(), None);
        for overload in all {
            let Some(ty) = self.apply(&overload.signature, args) else { continue };
            candidates.push(*overload);
            result = Some(match result {
                None => ty,
                Some(before) if before == ty => before,
                Some(_) => Type::Dyn,
            });
        }
        Some((candidates.into(), result?))
    }

    /// Returns the result type of a signature for these arguments, if they match.
    fn apply(&mut self, signature: &Signature, args: &[Type]) -> Option<Type> {
        let vars: Vec<Type> = (0..signature.vars).map(|_| self.types.fresh()).collect();
        let params: Vec<Type> = signature.params.iter().map(|ty| instance(ty, &vars)).collect();
        if !self.types.all_assignable(&params, args) {
            return None;
        }
        for (param, arg) in params.iter().zip(args) {
            self.types.widen(param, arg);
        }
        Some(self.types.known(&instance(&signature.result, &vars)))
    }

    pub(super) fn condition(&mut self, at: usize, test: Expr, then: Expr, otherwise: Expr) -> Typed {
        let (test, test_type) = self.expr(test);
        let (then, then_type) = self.expr(then);
        let (otherwise, other_type) = self.expr(otherwise);
        let types = [test_type, then_type, other_type];
        let fits = self.apply(functions::condition(), &types);
        let ty = fits.unwrap_or_else(|| {
            let why = no_overload("_?_:_", false, types.iter().map(|ty| self.types.settle(ty)));
            self.wrong(at, why)
        });
        (Node::Condition(Box::new([test, then, otherwise])), ty)
    }

    /// Checks an argument that is a literal.
    fn literal(&mut self, function: &str, args: &[Node], places: &[usize]) {
        let Some((_, place)) = LITERALS.iter().find(|(name, _)| *name == function) else { return };
        let (Some(Node::Const(value)), Some(at)) = (args.get(*place), places.get(*place)) else { return };
        let good = match (function, value) {
            ("duration", Value::String(text)) => oarlock_meta::GoDuration::parse(text).is_ok(),
            ("timestamp", Value::String(text)) => functions::timestamp(text).is_some(),
            ("matches" | "find" | "findAll", Value::String(text)) => {
                self.patterns.push(text.to_string());
                crate::pattern::compile(text).is_ok()
            }
            _ => true,
        };
        if !good {
            self.wrong(*at, format!("invalid {function} argument"));
        }
    }
}

pub(super) fn no_overload(function: &str, member: bool, types: impl Iterator<Item = Type>) -> String {
    let mut shown: Vec<String> = types.map(|ty| ty.to_string()).collect();
    let target = if member && !shown.is_empty() { format!("{}.", shown.remove(0)) } else { String::new() };
    format!("found no matching overload for '{function}' applied to '{target}({})'", shown.join(", "))
}

/// Returns a type of a signature with its type parameters substituted.
fn instance(ty: &Type, vars: &[Type]) -> Type {
    match ty {
        Type::Var(var) => usize::try_from(*var).ok().and_then(|var| vars.get(var)).cloned().unwrap_or(Type::Dyn),
        Type::List(inner) => Type::list(instance(inner, vars)),
        Type::Map(keys, values) => Type::map(instance(keys, vars), instance(values, vars)),
        Type::Optional(inner) => Type::optional(instance(inner, vars)),
        Type::Type(inner) => Type::type_of(instance(inner, vars)),
        other => other.clone(),
    }
}

//! The type checker: infers types, refuses ill-typed expressions, and lowers the syntax tree to a plan.

mod calls;
mod folds;
mod unify;

use crate::ast::{Access, Expr, Kind};
use crate::env::Env;
use crate::error::CompileError;
use crate::limits;
use crate::plan::Node;
use crate::types::Type;
use crate::value::Value;
use crate::words;

use unify::Unifier;

/// A name that the expression itself defines.
struct Local {
    name: String,
    ty: Type,
}

struct Checker<'e> {
    env: &'e Env,
    locals: Vec<Local>,
    types: Unifier,
    errors: Vec<(usize, String)>,
    patterns: Vec<String>,
    /// Whether the checker is within the arguments of `format`, where the items of a list may have different types.
    mixed: bool,
}

/// A checked expression: the plan, its type and its regular expressions.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) node: Node,
    pub(crate) ty: Type,
    /// Regular expressions that occur as literals.
    pub(crate) patterns: Vec<String>,
}

/// Checks and lowers a syntax tree.
pub(crate) fn check(text: &str, expr: Expr, env: &Env) -> Result<Checked, CompileError> {
    let (locals, errors, patterns) = (Vec::new(), Vec::new(), Vec::new());
    let mut checker = Checker { env, locals, types: Unifier::default(), errors, patterns, mixed: false };
    let (node, ty) = checker.expr(expr);
    if !checker.errors.is_empty() {
        return Err(CompileError::new(text, checker.errors));
    }
    Ok(Checked { node, ty: checker.types.settle(&ty), patterns: checker.patterns })
}

type Typed = (Node, Type);

impl Checker<'_> {
    fn expr(&mut self, expr: Expr) -> Typed {
        limits::level(|| self.one(expr))
    }

    fn one(&mut self, expr: Expr) -> Typed {
        let at = expr.at;
        match expr.kind {
            Kind::Literal(value) => {
                let ty = value.type_of();
                (Node::Const(value), ty)
            }
            Kind::Ident(name) => self.ident(at, &name),
            Kind::Select { operand, field, access } => self.select(at, *operand, field, access),
            Kind::Index { operand, index, optional } => {
                let function = if optional { "_[?_]" } else { "_[_]" };
                self.call(at, function.to_owned(), None, vec![*operand, *index])
            }
            Kind::Call { function, target, args } => self.call(at, function, target.map(|t| *t), args),
            Kind::And(a, b) => {
                let (a, b) = (self.boolean(*a), self.boolean(*b));
                (Node::And(Box::new(a), Box::new(b)), Type::Bool)
            }
            Kind::Or(a, b) => {
                let (a, b) = (self.boolean(*a), self.boolean(*b));
                (Node::Or(Box::new(a), Box::new(b)), Type::Bool)
            }
            Kind::Condition { test, then, otherwise } => self.condition(at, *test, *then, *otherwise),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Message(name) => (self.undeclared(at, &name), Type::Error),
            Kind::Fold(fold) => self.fold(at, *fold),
            Kind::Bind { name, init, body } => {
                let (init, ty) = self.expr(*init);
                let (body, result) = self.within(vec![(name, ty)], |checker| checker.expr(*body));
                (Node::Bind(Box::new([init, body])), result)
            }
            Kind::OptMap { operand, name, body, flat } => self.opt_map(*operand, name, *body, flat),
        }
    }

    fn ident(&mut self, at: usize, name: &str) -> Typed {
        let (bare, rooted) = (name.trim_start_matches('.'), name.starts_with('.'));
        if !rooted && let Some(place) = self.locals.iter().rposition(|local| local.name == bare) {
            let ty = self.locals.get(place).map_or(Type::Error, |local| local.ty.clone());
            return (Node::Local(place), ty);
        }
        match self.global(bare) {
            Some(found) => found,
            None => (self.undeclared(at, name), Type::Error),
        }
    }

    /// Returns a variable of the environment, or a type.
    fn global(&self, name: &str) -> Option<Typed> {
        if let Some(ty) = self.env.variable(name) {
            return Some((Node::Var(name.into()), ty.clone()));
        }
        let ty = Type::named(name)?;
        Some((Node::Const(Value::Type(ty.clone())), Type::type_of(ty)))
    }

    /// Returns the name that a chain of plain selections spells, unless the chain begins with a name that the expression defines.
    fn qualified(&self, expr: &Expr) -> Option<String> {
        match &expr.kind {
            Kind::Ident(name) if self.locals.iter().any(|local| local.name == *name) => None,
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, access: Access::Plain } => {
                Some(format!("{}.{field}", self.qualified(operand)?))
            }
            _ => None,
        }
    }

    fn select(&mut self, at: usize, operand: Expr, field: String, access: Access) -> Typed {
        if let Some(found) = self.qualified(&operand).and_then(|prefix| self.global(&format!("{prefix}.{field}"))) {
            // A variable with a qualified name exists whenever its parent does.
            return match access {
                Access::Plain => found,
                Access::Optional => {
                    let (node, ty) = found;
                    let candidates = self.overloads("optional.of", false);
                    let call = Node::Call { function: "optional.of".into(), candidates, args: Box::new([node]) };
                    (call, Type::optional(ty))
                }
                Access::Test => (Node::Const(Value::Bool(true)), Type::Bool),
            };
        }
        let (operand, ty) = self.expr(operand);
        let found = self.field(at, &ty, &field);
        let ty = match access {
            Access::Plain => found,
            Access::Test => Type::Bool,
            Access::Optional => match found {
                already @ Type::Optional(_) => already,
                plain => Type::optional(plain),
            },
        };
        let field = if self.env.escaped() { unescape(&field) } else { field }.into();
        (Node::Select { operand: Box::new(operand), field, access }, ty)
    }

    fn field(&mut self, at: usize, operand: &Type, field: &str) -> Type {
        match self.types.settle(operand) {
            Type::Dyn | Type::Error | Type::Var(_) => Type::Dyn,
            Type::Map(_, values) => (*values).clone(),
            Type::Optional(inner) => match self.field(at, &inner, field) {
                already @ Type::Optional(_) => already,
                plain => Type::optional(plain),
            },
            Type::Object(object) => match object.fields.get(field) {
                Some(ty) => ty.clone(),
                None => self.wrong(at, format!("undefined field '{field}'")),
            },
            // Upstream declares these types as objects without fields.
            Type::Opaque(name) if name.starts_with("kubernetes.") => {
                self.wrong(at, format!("unexpected failed resolution of '{name}'"))
            }
            other => self.wrong(at, format!("type '{other}' does not support field selection")),
        }
    }

    fn list(&mut self, items: Vec<(Expr, bool)>) -> Typed {
        let (mut ty, mut nodes) = (None, Vec::with_capacity(items.len()));
        for (item, optional) in items {
            let at = item.at;
            let (node, item) = self.expr(item);
            let item = if optional { self.inside_optional(at, &item) } else { item };
            ty = Some(self.joined(at, ty, item));
            nodes.push((node, optional));
        }
        let ty = ty.unwrap_or_else(|| self.types.fresh());
        (Node::List(nodes.into()), Type::list(ty))
    }

    fn map(&mut self, entries: Vec<(Expr, Expr, bool)>) -> Typed {
        let (mut keys, mut values, mut nodes) = (None, None, Vec::with_capacity(entries.len()));
        for (key, value, optional) in entries {
            let (key_at, value_at) = (key.at, value.at);
            let (key, key_type) = self.expr(key);
            let (value, value_type) = self.expr(value);
            let value_type = if optional { self.inside_optional(value_at, &value_type) } else { value_type };
            keys = Some(self.joined(key_at, keys, key_type));
            values = Some(self.joined(value_at, values, value_type));
            nodes.push((key, value, optional));
        }
        let mut or_fresh = |ty: Option<Type>| ty.unwrap_or_else(|| self.types.fresh());
        let ty = Type::map(or_fresh(keys), or_fresh(values));
        (Node::Map(nodes.into()), ty)
    }

    /// Returns the common type of all items so far: an item of another type is an error.
    fn joined(&mut self, at: usize, before: Option<Type>, now: Type) -> Type {
        let Some(before) = before else { return now };
        if self.types.assignable(&before, &now) && self.types.known(&before) == self.types.known(&now) {
            return before;
        }
        // Only the arguments of `format` may have many types; an expression with an error is not reported again.
        if !self.mixed && before != Type::Error && now != Type::Error {
            self.mismatch(at, &before, &now);
        }
        Type::Dyn
    }

    /// Returns the type inside an optional, or reports a type that no optional can hold.
    fn inside_optional(&mut self, at: usize, ty: &Type) -> Type {
        match self.types.known(ty) {
            Type::Optional(inner) => (*inner).clone(),
            Type::Var(_) => Type::Dyn,
            ty if ty.is_dyn() => Type::Dyn,
            other => self.mismatch(at, &Type::optional(other.clone()), &other),
        }
    }

    fn boolean(&mut self, expr: Expr) -> Node {
        let at = expr.at;
        let (node, ty) = self.expr(expr);
        if !self.types.assignable(&Type::Bool, &ty) {
            self.mismatch(at, &Type::Bool, &ty);
        }
        node
    }

    /// Defines names while `check` runs.
    fn within<T>(&mut self, names: Vec<(String, Type)>, check: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.locals.len();
        self.locals.extend(names.into_iter().map(|(name, ty)| Local { name, ty }));
        let result = check(self);
        self.locals.truncate(before);
        result
    }

    fn mismatch(&mut self, at: usize, expected: &Type, found: &Type) -> Type {
        let (expected, found) = (self.types.settle(expected), self.types.settle(found));
        self.wrong(at, format!("expected type '{expected}' but found '{found}'"))
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Node {
        self.wrong(at, format!("undeclared reference to '{name}' (in container '')"));
        Node::Const(Value::Null)
    }

    fn wrong(&mut self, at: usize, why: String) -> Type {
        self.errors.push((at, why));
        Type::Error
    }
}

/// Returns the field name that an expression writes escaped because the name is no identifier (Kubernetes' escaping of property names). A word that is no
/// escape is unchanged.
fn unescape(name: &str) -> String {
    let inner = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = inner.filter(|word| words::is_taken(word)) {
        return word.to_owned();
    }
    const ESCAPES: &[(&str, &str)] =
        &[("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];
    let (mut out, mut rest) = (String::with_capacity(name.len()), name);
    while let Some(next) = rest.chars().next() {
        let (plain, len) = match ESCAPES.iter().find(|(escaped, _)| rest.starts_with(escaped)) {
            Some((escaped, plain)) => (*plain, escaped.len()),
            None => (rest.get(..next.len_utf8()).unwrap_or_default(), next.len_utf8()),
        };
        out.push_str(plain);
        rest = rest.get(len..).unwrap_or_default();
    }
    out
}

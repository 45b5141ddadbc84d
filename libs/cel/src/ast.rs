//! The syntax tree that the parser makes, with macros expanded.

use crate::value::Value;

/// One expression with its position: the offset of the sign or word at which error texts point.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) at: usize,
    pub(crate) depth: usize,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Literal(Value<'static>),
    Ident(String),
    /// `a.b`, `a.?b`, `has(a.b)`.
    Select {
        operand: Box<Expr>,
        field: String,
        access: Access,
    },
    /// `a[b]`, `a[?b]`.
    Index {
        operand: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
    },
    /// Functions, methods and operators, by cel-go's names (`_+_`).
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Condition {
        test: Box<Expr>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    /// Items, each with whether it is written `?item`.
    List(Vec<(Expr, bool)>),
    /// Entries, each with whether the key is written `?key`.
    Map(Vec<(Expr, Expr, bool)>),
    /// `Name{field: value}`.
    Message(String),
    Fold(Box<Fold>),
    /// Binds `name` to the value of `init` within `body`.
    Bind {
        name: String,
        init: Box<Expr>,
        body: Box<Expr>,
    },
    /// `optMap`, `optFlatMap` (`flat`).
    OptMap {
        operand: Box<Expr>,
        name: String,
        body: Box<Expr>,
        flat: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Plain,
    Optional,
    Test,
}

/// A comprehension.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) what: What,
    pub(crate) range: Expr,
    /// One name, or two: index or key, and value.
    pub(crate) names: Vec<String>,
    pub(crate) filter: Option<Expr>,
    /// The result for an element; the test of `all`, `exists` and `existsOne`.
    pub(crate) body: Expr,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    All,
    Exists,
    ExistsOne,
    /// A list of the body's results for the elements that pass the filter.
    Map,
    /// A list of the elements for which the body is true.
    Filter,
    /// A map with the keys of the range (`transformMap`).
    TransformMap,
    /// A map of the entries that the body returns (`transformMapEntry`).
    TransformMapEntry,
    /// The elements, sorted by the body's results.
    SortBy,
}

impl Expr {
    pub(crate) fn new(at: usize, kind: Kind) -> Self {
        let depth = 1 + children(&kind).into_iter().map(|child| child.depth).max().unwrap_or(0);
        Self { at, depth, kind }
    }
}

fn children(kind: &Kind) -> Vec<&Expr> {
    match kind {
        Kind::Literal(_) | Kind::Ident(_) | Kind::Message(_) => Vec::new(),
        Kind::Select { operand, .. } => vec![operand],
        Kind::Index { operand: a, index: b, .. } | Kind::And(a, b) | Kind::Or(a, b) => vec![a, b],
        Kind::Bind { init: a, body: b, .. } | Kind::OptMap { operand: a, body: b, .. } => vec![a, b],
        Kind::Call { target, args, .. } => target.iter().map(AsRef::as_ref).chain(args).collect(),
        Kind::Condition { test, then, otherwise } => vec![test, then, otherwise],
        Kind::List(items) => items.iter().map(|(item, _)| item).collect(),
        Kind::Map(entries) => entries.iter().flat_map(|(key, value, _)| [key, value]).collect(),
        Kind::Fold(fold) => [&fold.range, &fold.body].into_iter().chain(&fold.filter).collect(),
    }
}

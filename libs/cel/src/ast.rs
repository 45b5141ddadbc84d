//! The tree that the parser makes, macros expanded.

use crate::value::Value;

/// One expression and where it stands: the offset of the sign or word that error texts point at.
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
    /// Items; the flag says `?item`.
    List(Vec<(Expr, bool)>),
    /// Entries; the flag says `?key`.
    Map(Vec<(Expr, Expr, bool)>),
    /// `Name{field: value}`.
    Message(String),
    Fold(Box<Fold>),
    /// `name` stands for `init` within `body`.
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
    /// What is made of an element; the test of `all`, `exists` and `existsOne`.
    pub(crate) body: Expr,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    All,
    Exists,
    ExistsOne,
    /// A list of what the body makes of the elements that pass the filter.
    Map,
    /// A list of the elements that pass the body.
    Filter,
    /// A map with the keys of the range (`transformMap`).
    TransformMap,
    /// A map of the entries that the body makes (`transformMapEntry`).
    TransformMapEntry,
    /// The elements in the order of what the body makes of them.
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

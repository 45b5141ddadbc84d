//! The plan that the checker makes and the interpreter evaluates: names are stack positions, calls are lists of overloads.

use crate::ast::{Access, What};
use crate::overload::Overload;
use crate::value::Value;

#[derive(Debug)]
pub(crate) enum Node {
    Const(Value<'static>),
    /// A variable of the environment, by its (qualified) name.
    Var(Box<str>),
    /// A name that the expression itself defines, by its position on the stack.
    Local(usize),
    Select {
        operand: Box<Node>,
        field: Box<str>,
        access: Access,
    },
    Call {
        function: Box<str>,
        candidates: Box<[&'static Overload]>,
        args: Box<[Node]>,
    },
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Condition(Box<[Node; 3]>),
    List(Box<[(Node, bool)]>),
    Map(Box<[(Node, Node, bool)]>),
    Fold(Box<Fold>),
    /// The first node's value is on the stack while the second is evaluated.
    Bind(Box<[Node; 2]>),
    OptMap {
        operand: Box<Node>,
        body: Box<Node>,
        flat: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) what: What,
    pub(crate) range: Node,
    /// Whether two names are on the stack instead of one.
    pub(crate) pairs: bool,
    pub(crate) filter: Option<Node>,
    pub(crate) body: Node,
}

//! Checks comprehensions.

use super::calls::no_overload;
use super::{Checker, Typed};
use crate::ast::{self, Expr, What};
use crate::plan::{self, Node};
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn fold(&mut self, at: usize, fold: ast::Fold) -> Typed {
        let range_at = fold.range.at;
        let (range, range_type) = self.expr(fold.range);
        let pairs = fold.names.len() == 2;
        let range_type = self.types.settle(&range_type);
        let (first, second) = match &range_type {
            Type::List(items) if pairs => (Type::Int, (**items).clone()),
            Type::List(items) => ((**items).clone(), Type::Dyn),
            Type::Map(keys, values) => ((**keys).clone(), (**values).clone()),
            ty if ty.is_dyn() => (Type::Dyn, Type::Dyn),
            other => {
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                (self.wrong(range_at, why), Type::Error)
            }
        };
        let names = fold.names.into_iter().zip([first.clone(), second]).collect();
        let (filter, body, body_type) = self.within(names, |checker| {
            let filter = fold.filter.map(|filter| checker.expr(filter));
            let (body, ty) = match fold.what {
                What::All | What::Exists => (checker.boolean(fold.body), Type::Bool),
                What::TransformMapEntry => checker.entry(fold.body),
                What::Map | What::TransformMap | What::SortBy | What::ExistsOne | What::Filter => {
                    checker.expr(fold.body)
                }
            };
            (filter, body, ty)
        });
        let ty = match fold.what {
            What::All | What::Exists | What::ExistsOne => Type::Bool,
            What::Map => Type::list(body_type.clone()),
            What::Filter | What::SortBy => Type::list(first),
            What::TransformMap => Type::map(first, body_type.clone()),
            What::TransformMapEntry => body_type.clone(),
        };
        match fold.what {
            What::Filter => self.guard(at, body_type, &ty),
            What::ExistsOne => self.guard(at, body_type, &Type::Int),
            _ => {}
        }
        let filter = filter.map(|(filter, test)| {
            self.guard(at, test, &ty);
            filter
        });
        (Node::Fold(Box::new(plan::Fold { what: fold.what, range, pairs, filter, body })), ty)
    }

    /// Checks a test on which a step of the result depends; upstream makes the step a conditional and reports a wrong test as an error of the conditional.
    fn guard(&mut self, at: usize, test: Type, result: &Type) {
        if !self.types.assignable(&Type::Bool, &test) {
            let types = [&test, result, result].map(|ty| self.types.settle(ty));
            self.wrong(at, no_overload("_?_:_", false, types.into_iter()));
        }
    }

    /// Checks the body of `transformMapEntry`, which must be a map.
    fn entry(&mut self, body: Expr) -> Typed {
        let at = body.at;
        let (node, ty) = self.expr(body);
        let map = Type::map(Type::Dyn, Type::Dyn);
        if !self.types.assignable(&map, &ty) {
            self.mismatch(at, &map, &ty);
        }
        (node, ty)
    }

    pub(super) fn opt_map(&mut self, operand: Expr, name: String, body: Expr, flat: bool) -> Typed {
        let at = operand.at;
        let (operand, ty) = self.expr(operand);
        let inner = self.inside_optional(at, &ty);
        let body_at = body.at;
        let (body, result) = self.within(vec![(name, inner)], |checker| checker.expr(body));
        let result = if flat { self.inside_optional(body_at, &result) } else { result };
        (Node::OptMap { operand: Box::new(operand), body: Box::new(body), flat }, Type::optional(result))
    }
}

//! Macros: calls that the parser expands, because they test fields or define variables.

use super::{Parser, Wrong};
use crate::ast::{Access, Expr, Fold, Kind, What};

impl Parser<'_> {
    /// Makes a call of a function, or expands `has`.
    pub(super) fn function(&self, at: usize, function: String, args: Vec<Expr>) -> Result<Expr, Wrong> {
        let mut args = args;
        if function == "has" && args.len() == 1 {
            let Some(arg) = args.pop() else { return Err((at, String::new())) };
            let Kind::Select { operand, field, access: Access::Plain } = arg.kind else {
                return Err((arg.at, "invalid argument to has() macro".to_owned()));
            };
            return self.make(at, Kind::Select { operand, field, access: Access::Test });
        }
        self.make(at, Kind::Call { function, target: None, args })
    }

    /// Makes a call of a method, or expands a comprehension or another macro in method form.
    pub(super) fn method(&self, at: usize, target: Expr, name: String, mut args: Vec<Expr>) -> Result<Expr, Wrong> {
        use What::{All, Exists, ExistsOne, Filter, Map, SortBy, TransformMap, TransformMapEntry};
        let (what, names) = match (name.as_str(), args.len()) {
            ("all", n @ 2..=3) => (All, n - 1),
            ("exists", n @ 2..=3) => (Exists, n - 1),
            ("exists_one", 2) => (ExistsOne, 1),
            ("existsOne", n @ 2..=3) => (ExistsOne, n - 1),
            ("map", 2..=3) => (Map, 1),
            ("filter", 2) => (Filter, 1),
            ("transformList", 3..=4) => (Map, 2),
            ("transformMap", 3..=4) => (TransformMap, 2),
            ("transformMapEntry", 3..=4) => (TransformMapEntry, 2),
            ("sortBy", 2) => (SortBy, 1),
            ("optMap" | "optFlatMap", 2) => return self.opt_map(at, target, &name, args),
            ("bind", 3) if self.bindings && matches!(&target.kind, Kind::Ident(cel) if cel == "cel") => {
                return self.bind(at, args);
            }
            _ => return self.make(at, Kind::Call { function: name, target: Some(Box::new(target)), args }),
        };
        let mut rest = args.split_off(names).into_iter().rev();
        let (Some(body), filter) = (rest.next(), rest.next()) else { return Err((at, String::new())) };
        let names = args.into_iter().map(simple_name).collect::<Result<Vec<_>, _>>()?;
        if let [first, second] = names.as_slice()
            && first == second
        {
            return Err((at, format!("duplicate variable name: {first}")));
        }
        self.make(at, Kind::Fold(Box::new(Fold { what, range: target, names, filter, body })))
    }

    fn opt_map(&self, at: usize, operand: Expr, name: &str, args: Vec<Expr>) -> Result<Expr, Wrong> {
        let flat = name == "optFlatMap";
        let [name, body] = <[Expr; 2]>::try_from(args).map_err(|_| (at, String::new()))?;
        let (operand, body) = (Box::new(operand), Box::new(body));
        self.make(at, Kind::OptMap { operand, name: simple_name(name)?, body, flat })
    }

    fn bind(&self, at: usize, args: Vec<Expr>) -> Result<Expr, Wrong> {
        let [name, init, body] = <[Expr; 3]>::try_from(args).map_err(|_| (at, String::new()))?;
        self.make(at, Kind::Bind { name: simple_name(name)?, init: Box::new(init), body: Box::new(body) })
    }
}

fn simple_name(expr: Expr) -> Result<String, Wrong> {
    match expr.kind {
        Kind::Ident(name) if !name.starts_with('.') => Ok(name),
        _ => Err((expr.at, "argument must be a simple name".to_owned())),
    }
}

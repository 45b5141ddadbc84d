//! The parser: makes a syntax tree of tokens, with operators by precedence and macros expanded.

mod expect;
mod macros;

use crate::ast::{Access, Expr, Kind};
use crate::error::{CompileError, NOWHERE};
use crate::lexer::{self, Lexeme, Token};
use crate::limits;
use crate::value::Value;
use crate::words;

/// Binary operators that bind tighter than `&&`, from loose to tight; operators of one row associate to the left.
const LEVELS: &[&[(&str, &str)]] = &[
    &[("<", "_<_"), ("<=", "_<=_"), (">=", "_>=_"), (">", "_>_"), ("==", "_==_"), ("!=", "_!=_"), ("in", "@in")],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

/// An offset with an error message. A parser stops at its first error.
type Wrong = (usize, String);

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Lexeme>,
    next: usize,
    nesting: usize,
    bindings: bool,
}

/// Parses an expression. `bindings` enables `cel.bind`.
pub(crate) fn parse(text: &str, bindings: bool) -> Result<Expr, CompileError> {
    let chars = text.chars().count();
    if chars > limits::EXPRESSION_CHARS {
        let limit = limits::EXPRESSION_CHARS;
        let why = format!("expression code point size exceeds limit: size: {chars}, limit {limit}");
        return Err(CompileError::new(text, vec![(NOWHERE, why)]));
    }
    let (tokens, mut errors) = lexer::lex(text);
    let mut parser = Parser { text, tokens, next: 0, nesting: 0, bindings };
    let parsed = parser.expression().and_then(|expr| parser.end().map(|()| expr));
    match parsed {
        Ok(expr) if errors.is_empty() => return Ok(expr),
        Ok(_) => {}
        Err(wrong) => errors.push(wrong),
    }
    Err(CompileError::new(text, errors))
}

impl Parser<'_> {
    fn expression(&mut self) -> Result<Expr, Wrong> {
        let test = self.or()?;
        let Some(at) = self.take("?") else { return Ok(test) };
        let then = self.or()?;
        self.expect(":")?;
        let otherwise = self.nested(Self::expression)?;
        self.make(at, Kind::Condition { test: Box::new(test), then: Box::new(then), otherwise: Box::new(otherwise) })
    }

    fn or(&mut self) -> Result<Expr, Wrong> {
        self.logical("||", Self::and, |a, b| Kind::Or(Box::new(a), Box::new(b)))
    }

    fn and(&mut self) -> Result<Expr, Wrong> {
        self.logical("&&", |parser| parser.binary(0), |a, b| Kind::And(Box::new(a), Box::new(b)))
    }

    /// Parses a chain of one logical operator into a balanced tree: `&&` and `||` are associative.
    fn logical(
        &mut self,
        sign: &str,
        part: impl Fn(&mut Self) -> Result<Expr, Wrong>,
        join: impl Fn(Expr, Expr) -> Kind,
    ) -> Result<Expr, Wrong> {
        let mut level = vec![part(self)?];
        while self.take(sign).is_some() {
            level.push(part(self)?);
        }
        while level.len() > 1 {
            let mut rest = level.into_iter();
            let mut above = Vec::new();
            while let Some(a) = rest.next() {
                above.push(match rest.next() {
                    Some(b) => self.make(b.at, join(a, b))?,
                    None => a,
                });
            }
            level = above;
        }
        level.pop().ok_or_else(|| (0, String::new()))
    }

    fn binary(&mut self, level: usize) -> Result<Expr, Wrong> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        loop {
            let Some((at, function)) = operators.iter().find_map(|(sign, name)| Some((self.take(sign)?, *name))) else {
                return Ok(left);
            };
            let right = self.binary(level + 1)?;
            left = self.make(at, call(function, vec![left, right]))?;
        }
    }

    /// Parses `!` and `-`; an even number of either cancels out.
    fn unary(&mut self) -> Result<Expr, Wrong> {
        for (sign, function) in [("!", "!_"), ("-", "-_")] {
            let Some(at) = self.take(sign) else { continue };
            if sign == "-"
                && let Some(number) = self.negative(at)
            {
                return self.members(number);
            }
            let mut odd = true;
            while self.take(sign).is_some() {
                odd = !odd;
            }
            let operand = self.member()?;
            return if odd { self.make(at, call(function, vec![operand])) } else { Ok(operand) };
        }
        self.member()
    }

    /// Parses a number together with the minus before it.
    fn negative(&mut self, at: usize) -> Option<Expr> {
        let value = match &self.peek().token {
            Token::LeastInt => Value::Int(i64::MIN),
            Token::Literal(Ok(Value::Int(n))) => Value::Int(-n),
            Token::Literal(Ok(Value::Double(n))) => Value::Double(-n),
            _ => return None,
        };
        self.next += 1;
        Some(Expr::new(at, Kind::Literal(value)))
    }

    fn member(&mut self) -> Result<Expr, Wrong> {
        let primary = self.primary()?;
        self.members(primary)
    }

    fn members(&mut self, mut expr: Expr) -> Result<Expr, Wrong> {
        loop {
            if let Some(at) = self.take(".") {
                let optional = self.take("?").is_some();
                let Some(name) = self.ident() else { return Err(self.no_name(".")) };
                expr = match self.take("(").filter(|_| !optional) {
                    Some(open) => {
                        let args = self.arguments()?;
                        self.method(open, expr, name, args)?
                    }
                    None => {
                        let access = if optional { Access::Optional } else { Access::Plain };
                        self.make(at, Kind::Select { operand: Box::new(expr), field: name, access })?
                    }
                };
            } else if let Some(at) = self.take("[") {
                let optional = self.take("?").is_some();
                let index = self.nested(Self::expression)?;
                self.expect("]")?;
                expr = self.make(at, Kind::Index { operand: Box::new(expr), index: Box::new(index), optional })?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr, Wrong> {
        let token = self.peek().clone();
        match token.token {
            Token::Literal(value) => {
                self.next += 1;
                self.make(token.start, Kind::Literal(value.map_err(|why| (token.start, why.to_owned()))?))
            }
            Token::LeastInt => Err((token.start, "invalid int literal".to_owned())),
            Token::Ident => self.named(""),
            Token::Sign("(") => {
                self.next += 1;
                let inner = self.nested(Self::expression)?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                self.next += 1;
                let items = self.sequence("]", |parser| {
                    let optional = parser.take("?").is_some();
                    Ok((parser.nested(Self::expression)?, optional))
                })?;
                self.make(token.start, Kind::List(items))
            }
            Token::Sign("{") => {
                self.next += 1;
                let entries = self.sequence("}", |parser| {
                    let optional = parser.take("?").is_some();
                    let key = parser.nested(Self::expression)?;
                    parser.expect(":")?;
                    Ok((key, parser.nested(Self::expression)?, optional))
                })?;
                self.make(token.start, Kind::Map(entries))
            }
            Token::Sign(".") => {
                self.next += 1;
                if matches!(self.peek().token, Token::Ident) { self.named(".") } else { Err(self.no_name(".")) }
            }
            Token::Sign(_) | Token::End => Err(self.no_expression()),
        }
    }

    /// Parses a variable, a call, or a message.
    fn named(&mut self, dot: &str) -> Result<Expr, Wrong> {
        let at = self.peek().start;
        let Some(name) = self.ident() else { return Err(self.no_expression()) };
        if words::RESERVED.contains(&name.as_str()) {
            return Err((at, format!("reserved identifier: {name}")));
        }
        if let Some(open) = self.take("(") {
            let args = self.arguments()?;
            return self.function(open, format!("{dot}{name}"), args);
        }
        if let Some(message) = self.message(format!("{dot}{name}"))? {
            return Ok(message);
        }
        self.make(at, Kind::Ident(format!("{dot}{name}")))
    }

    /// Parses `a.b.Name{field: value}`; consumes nothing if the tokens are no message.
    fn message(&mut self, mut name: String) -> Result<Option<Expr>, Wrong> {
        let start = self.next;
        loop {
            if let Some(at) = self.take("{") {
                self.sequence("}", |parser| {
                    parser.take("?");
                    let Some(_) = parser.ident() else { return Err(parser.no_name("{")) };
                    parser.expect(":")?;
                    parser.nested(Self::expression)
                })?;
                return self.make(at, Kind::Message(name)).map(Some);
            }
            let part = self.take(".").and_then(|_| self.ident());
            let Some(part) = part else {
                self.next = start;
                return Ok(None);
            };
            name = format!("{name}.{part}");
        }
    }

    /// Parses the arguments after an opening parenthesis.
    fn arguments(&mut self) -> Result<Vec<Expr>, Wrong> {
        let mut args = Vec::new();
        if self.take(")").is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.nested(Self::expression)?);
            if self.take(",").is_none() {
                self.expect(")")?;
                return Ok(args);
            }
        }
    }

    /// Parses comma-separated parts up to a closing bracket; a trailing comma is allowed.
    fn sequence<T>(
        &mut self,
        close: &'static str,
        part: impl Fn(&mut Self) -> Result<T, Wrong>,
    ) -> Result<Vec<T>, Wrong> {
        let mut parts = Vec::new();
        while self.take(close).is_none() {
            if !parts.is_empty() && self.take(",").is_none() {
                return Err(self.no_more(close));
            }
            if self.take(close).is_some() {
                break;
            }
            if matches!(self.peek().token, Token::End) && !parts.is_empty() {
                self.expect(close)?;
            }
            parts.push(part(self)?);
        }
        Ok(parts)
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Wrong>) -> Result<T, Wrong> {
        self.nesting += 1;
        if self.nesting > limits::EXPRESSION_DEPTH {
            return Err(too_deep());
        }
        let result = limits::level(|| parse(self));
        self.nesting -= 1;
        result
    }

    fn make(&self, at: usize, kind: Kind) -> Result<Expr, Wrong> {
        let expr = Expr::new(at, kind);
        if expr.depth > limits::EXPRESSION_DEPTH {
            return Err((NOWHERE, "max recursion depth exceeded".to_owned()));
        }
        Ok(expr)
    }

    fn peek(&self) -> &Lexeme {
        // The last token is the end, and the parser never advances beyond the end.
        const END: Lexeme = Lexeme { token: Token::End, start: 0, end: 0 };
        self.tokens.get(self.next).or(self.tokens.last()).unwrap_or(&END)
    }

    fn take(&mut self, sign: &str) -> Option<usize> {
        let Lexeme { token: Token::Sign(have), start, .. } = self.peek() else { return None };
        let start = (*have == sign).then_some(*start)?;
        self.next += 1;
        Some(start)
    }

    fn ident(&mut self) -> Option<String> {
        let Lexeme { token: Token::Ident, start, end } = self.peek() else { return None };
        let name = self.text.get(*start..*end)?.to_owned();
        self.next += 1;
        Some(name)
    }
}

fn too_deep() -> Wrong {
    (NOWHERE, format!("expression recursion limit exceeded: {}", limits::EXPRESSION_DEPTH))
}

/// Makes a call of a function or operator.
fn call(function: &str, args: Vec<Expr>) -> Kind {
    Kind::Call { function: function.to_owned(), target: None, args }
}

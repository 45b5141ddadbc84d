//! The lexer: splits the text into tokens, by the grammar of the language definition.

mod literal;

use std::sync::Arc;

use crate::value::Value;

/// The kind and content of a token.
#[derive(Clone, Debug)]
pub(crate) enum Token {
    /// A literal; a number out of range or an invalid escape is an error only when the literal is used.
    Literal(Result<Value<'static>, &'static str>),
    /// The absolute value of the least int, which is in range only right after a minus.
    LeastInt,
    Ident,
    /// An operator, a bracket, or `in`.
    Sign(&'static str),
    End,
}

/// A token with its position.
#[derive(Clone, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Signs and brackets; a longer sign comes before those that are its prefixes.
const SIGNS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*",
    "/", "%",
];

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    errors: Vec<(usize, String)>,
}

/// Returns the tokens of a text, the last one [`Token::End`], and the skipped parts at which no token begins.
pub(crate) fn lex(text: &str) -> (Vec<Lexeme>, Vec<(usize, String)>) {
    let mut lexer = Lexer { text, at: 0, errors: Vec::new() };
    let mut tokens = Vec::new();
    loop {
        let next = lexer.next();
        let done = matches!(next.token, Token::End);
        tokens.push(next);
        if done {
            return (tokens, lexer.errors);
        }
    }
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next(&mut self) -> Lexeme {
        loop {
            self.skip_space();
            let (start, rest) = (self.at, self.rest());
            let Some(first) = rest.chars().next() else { return Lexeme { token: Token::End, start, end: start } };
            let (token, len) = if let Some(found) = self.quoted(rest) {
                found
            } else if first.is_ascii_alphabetic() || first == '_' {
                word(rest)
            } else if first.is_ascii_digit() || (first == '.' && rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit))
            {
                literal::number(rest)
            } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                (Token::Sign(sign), sign.len())
            } else {
                let bad = if first == '`' {
                    "unsupported syntax: '`'".to_owned()
                } else {
                    unknown(first.encode_utf8(&mut [0; 4]))
                };
                self.skip(first.len_utf8(), bad);
                continue;
            };
            self.at += len;
            // An unterminated text was reported and is skipped.
            if len > 0 {
                return Lexeme { token, start, end: self.at };
            }
        }
    }

    /// Reads a text or bytes in quotes; the length is 0 for an unterminated text or an unknown escape.
    fn quoted(&mut self, rest: &str) -> Option<(Token, usize)> {
        let quoted = literal::quoted(rest)?;
        Some(match quoted {
            Ok((literal::Quoted { bytes: true, content }, len)) => {
                let value = content.map(|content| Value::Bytes(Arc::from(content)));
                (Token::Literal(value), len)
            }
            Ok((literal::Quoted { content, .. }, len)) => {
                let text = content.and_then(|c| String::from_utf8(c).map_err(|_| literal::BAD_ESCAPE));
                (Token::Literal(text.map(Value::from)), len)
            }
            Err(len) => {
                let len = rest.floor_char_boundary(len.min(rest.len())).max(1);
                let bad = unknown(rest.get(..len).unwrap_or(rest));
                self.skip(len, bad);
                (Token::End, 0)
            }
        })
    }

    fn skip(&mut self, len: usize, why: String) {
        self.errors.push((self.at, why));
        self.at += len;
    }

    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']);
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }
}

fn unknown(text: &str) -> String {
    format!("Syntax error: token recognition error at: '{text}'")
}

fn word(rest: &str) -> (Token, usize) {
    let len = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    let token = match rest.get(..len) {
        Some("true") => Token::Literal(Ok(Value::Bool(true))),
        Some("false") => Token::Literal(Ok(Value::Bool(false))),
        Some("null") => Token::Literal(Ok(Value::Null)),
        Some("in") => Token::Sign("in"),
        _ => Token::Ident,
    };
    (token, len)
}

//! Error texts for unexpected tokens, in the words of upstream's generated parser.

use super::{Parser, Wrong};
use crate::lexer::{Lexeme, Token};

const BEGINNINGS: &str =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

impl Parser<'_> {
    /// Fails unless the text ends here.
    pub(super) fn end(&self) -> Result<(), Wrong> {
        match self.peek().token {
            Token::End => Ok(()),
            _ => Err(self.unfit("<EOF>", matches!(self.after().token, Token::End), false)),
        }
    }

    /// Consumes a required sign.
    pub(super) fn expect(&mut self, sign: &'static str) -> Result<(), Wrong> {
        if self.take(sign).is_some() {
            return Ok(());
        }
        let extra = matches!(self.after().token, Token::Sign(after) if after == sign);
        let at_end = matches!(self.peek().token, Token::End);
        let missing = if sign == ":" { !at_end && begins(&self.peek().token) } else { at_end };
        Err(self.unfit(&format!("'{sign}'"), extra, missing))
    }

    pub(super) fn no_expression(&self) -> Wrong {
        self.unfit(BEGINNINGS, false, false)
    }

    /// Makes the error for a token that is neither a comma nor the end of a list or map.
    pub(super) fn no_more(&self, close: &str) -> Wrong {
        let expected = if close == "}" { "{'}', ','}".to_owned() } else { format!("{{'{close}', ','}}") };
        self.unfit(&expected, false, false)
    }

    /// Makes the error for a token that is no name where a name is required.
    pub(super) fn no_name(&self, before: &str) -> Wrong {
        let here = self.peek();
        let shown = if matches!(here.token, Token::End) { "" } else { self.shown(here) };
        (here.start, format!("Syntax error: no viable alternative at input '{before}{shown}'"))
    }

    fn unfit(&self, expected: &str, extra: bool, missing: bool) -> Wrong {
        let here = self.peek();
        let shown = self.shown(here);
        let why = if extra {
            format!("extraneous input '{shown}' expecting {expected}")
        } else if missing {
            format!("missing {expected} at '{shown}'")
        } else {
            format!("mismatched input '{shown}' expecting {expected}")
        };
        (here.start, format!("Syntax error: {why}"))
    }

    fn shown(&self, lexeme: &Lexeme) -> &str {
        match lexeme.token {
            Token::End => "<EOF>",
            _ => self.text.get(lexeme.start..lexeme.end).unwrap_or_default(),
        }
    }

    fn after(&self) -> &Lexeme {
        self.tokens.get(self.next + 1).unwrap_or_else(|| self.peek())
    }
}

/// Whether an expression may begin with a token.
fn begins(token: &Token) -> bool {
    match token {
        Token::Literal(_) | Token::LeastInt | Token::Ident => true,
        Token::Sign(sign) => ["[", "{", "(", ".", "-", "!"].contains(sign),
        Token::End => false,
    }
}

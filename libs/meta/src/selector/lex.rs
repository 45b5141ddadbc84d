//! The lexer of a label selector's text form (upstream `labels.Lexer`).

use std::borrow::Cow;

use oarlock_seeded_bug::seeded_bug;

/// The kind of a token of a label selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Error,
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

fn space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

fn symbol(b: u8) -> bool {
    matches!(b, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn known(word: &str) -> Option<Token> {
    Some(match word {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "in" => Token::In,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "notin" => Token::NotIn,
        "(" => Token::Open,
        _ => return None,
    })
}

/// Splits `text` into tokens; the last one is [`Token::End`]. As in upstream's lexer a NUL byte at the start of a token ends the text; elsewhere a NUL byte ends
/// only the token.
pub(super) fn lex(text: &str) -> Vec<(Token, Cow<'_, str>)> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| u8::try_from(c).is_ok_and(space));
        let Some(first) = rest.as_bytes().first().filter(|first| **first != 0) else {
            words.push((Token::End, Cow::Borrowed("")));
            return words;
        };
        let (token, word, len) = if symbol(*first) { scan_symbol(rest) } else { scan_word(rest) };
        words.push((token, word));
        rest = rest.get(len..).unwrap_or_default();
        rest = rest.strip_prefix('\0').unwrap_or(rest);
    }
}

fn scan_word(rest: &str) -> (Token, Cow<'_, str>, usize) {
    let len = rest.bytes().take_while(|b| !symbol(*b) && !space(*b) && *b != 0).count();
    let word = rest.get(..len).unwrap_or_default();
    (known(word).unwrap_or(Token::Identifier), Cow::Borrowed(word), len)
}

/// The length in bytes of the longest symbol operators, `==` and `!=`.
const MAX_OPERATOR_BYTES: usize = 2;

/// Returns the longest known operator at the start of `rest`. Looks at no more bytes than the longest operator has, because a run of symbols may be as long as
/// the whole selector, and each of its bytes starts a token.
fn scan_symbol(rest: &str) -> (Token, Cow<'_, str>, usize) {
    let most = if seeded_bug!("operator_looks_at_the_rest") { rest.len() } else { MAX_OPERATOR_BYTES };
    let run = rest.bytes().take(most).take_while(|b| symbol(*b)).count();
    let best = (1..=run).rev().find_map(|len| rest.get(..len).and_then(|word| Some((known(word)?, word, len))));
    match best {
        Some((token, word, len)) => (token, Cow::Borrowed(word), len),
        // Each symbol is an operator by itself, so this symbol is unknown to `known`.
        None => (Token::Error, Cow::Owned(format!("error expected: keyword found '{rest}'")), rest.len()),
    }
}

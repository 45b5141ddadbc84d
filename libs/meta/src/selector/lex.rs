//! The words of a label selector's text form (upstream `labels.Lexer`).

use std::borrow::Cow;

/// A word and what it may mean.
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

/// Splits `text` into words; the last one is [`Token::End`]. As in upstream's lexer a NUL byte ends the text where a
/// word could start, and only the word elsewhere.
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

/// The longest known operator at the start. Symbols that start none are swallowed into one error word.
fn scan_symbol(rest: &str) -> (Token, Cow<'_, str>, usize) {
    let run = rest.bytes().take_while(|b| symbol(*b)).count();
    let mut best = None;
    for len in 1..=run {
        match rest.get(..len).map(|word| (word, known(word))) {
            Some((word, Some(token))) => best = Some((token, word, len)),
            _ if best.is_some() => break,
            _ => {}
        }
    }
    match best {
        Some((token, word, len)) => (token, Cow::Borrowed(word), len),
        None => {
            let word = rest.get(..run).unwrap_or_default();
            (Token::Error, Cow::Owned(format!("error expected: keyword found '{word}'")), run)
        }
    }
}

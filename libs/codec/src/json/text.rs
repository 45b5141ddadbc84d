//! The tokenizer: a cursor over JSON text, driven by a schema-directed walk.
//!
//! The tokenizer is written by hand because the walk knows the expected token: no token is materialised, plain texts are borrowed, and a syntax
//! error carries no message (`syntax` finds Go's message afterwards).

use std::borrow::Cow;

use super::words;
use crate::source::{Fail, Kind, Num, Source};

/// The nesting at which Go's scanner gives up.
pub(crate) const MAX_NESTING: u32 = 10_000;

/// The number of eight-byte words after which a text is scanned in larger blocks.
const LONG_TEXT_WORDS: u32 = 8;

pub(crate) struct Text<'de> {
    text: &'de str,
    bytes: &'de [u8],
    at: usize,
}

impl<'de> Text<'de> {
    pub(crate) fn new(text: &'de str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0 }
    }

    /// Returns the index of the next byte.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Whether only space remains.
    pub(crate) fn at_end(&mut self) -> bool {
        self.space();
        self.at >= self.bytes.len()
    }

    #[inline]
    fn byte(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// Skips space and returns the next byte; 0, which is no token, at the end.
    #[inline]
    fn space(&mut self) -> u8 {
        loop {
            let byte = self.byte();
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return byte;
            }
            self.at += 1;
        }
    }

    #[inline]
    fn slice(&self, from: usize, to: usize) -> &'de str {
        self.text.get(from..to).unwrap_or("")
    }

    fn word(&mut self, word: &str) -> Result<(), Fail> {
        let end = self.at + word.len();
        if self.bytes.get(self.at..end) != Some(word.as_bytes()) {
            return Err(Fail::Syntax);
        }
        self.at = end;
        Ok(())
    }

    /// Reads a text; the cursor must be at its opening quote.
    #[inline]
    fn string(&mut self) -> Result<Cow<'de, str>, Fail> {
        let start = self.at + 1;
        let end = self.plain(start)?;
        if self.bytes.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(Cow::Borrowed(self.slice(start, end)));
        }
        self.escaped(start, end).map(Cow::Owned)
    }

    /// Returns the index of the first byte at or after `from` that is a quote or a backslash.
    #[inline]
    fn plain(&self, from: usize) -> Result<usize, Fail> {
        let mut rest = self.bytes.get(from..).unwrap_or(&[]);
        let mut scanned = 0;
        // Eight bytes at a time, larger blocks in long texts, and single bytes at the end.
        while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
            let special = special_bytes(u64::from_le_bytes(*chunk));
            if special != 0 {
                let at = self.bytes.len() - rest.len() + words::first(special);
                return if self.bytes.get(at).is_some_and(|b| *b >= 0x20) { Ok(at) } else { Err(Fail::Syntax) };
            }
            scanned += 1;
            rest = if scanned == LONG_TEXT_WORDS { behind_plain_blocks(tail) } else { tail };
        }
        match rest.iter().position(|b| is_special(*b)) {
            Some(offset) if rest.get(offset).is_some_and(|b| *b >= 0x20) => Ok(self.bytes.len() - rest.len() + offset),
            _ => Err(Fail::Syntax),
        }
    }

    #[cold]
    fn escaped(&mut self, start: usize, mut end: usize) -> Result<String, Fail> {
        let mut out = String::with_capacity(end - start + 16);
        out.push_str(self.slice(start, end));
        loop {
            self.at = end + 1;
            if self.bytes.get(end) == Some(&b'"') {
                return Ok(out);
            }
            let escape = self.byte();
            self.at += 1;
            out.push(match escape {
                b'"' | b'\\' | b'/' => char::from(escape),
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => self.unicode()?,
                _ => return Err(Fail::Syntax),
            });
            let from = self.at;
            end = self.plain(from)?;
            out.push_str(self.slice(from, end));
        }
    }

    /// Returns the character of `\uXXXX`, or of two of them for a surrogate pair; a lone surrogate is U+FFFD, as in Go.
    fn unicode(&mut self) -> Result<char, Fail> {
        let first = self.hex(self.at).ok_or(Fail::Syntax)?;
        self.at += 4;
        if !(0xd800..0xe000).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        if first < 0xdc00
            && self.bytes.get(self.at..self.at + 2) == Some(b"\\u")
            && let Some(second) = self.hex(self.at + 2)
            && (0xdc00..0xe000).contains(&second)
        {
            self.at += 6;
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at..at + 4)?;
        digits.iter().try_fold(0, |n, b| Some(n << 4 | char::from(*b).to_digit(16)?))
    }

    /// Skips a number and returns whether it is written as a whole number.
    fn number_end(&mut self) -> Result<bool, Fail> {
        if self.byte() == b'-' {
            self.at += 1;
        }
        match self.byte() {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits()?,
            _ => return Err(Fail::Syntax),
        }
        let mut whole = true;
        if self.byte() == b'.' {
            whole = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), b'e' | b'E') {
            whole = false;
            self.at += 1;
            if matches!(self.byte(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(whole)
    }

    fn digits(&mut self) -> Result<(), Fail> {
        let from = self.at;
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == from { Err(Fail::Syntax) } else { Ok(()) }
    }

    fn scalar(&mut self, first: u8) -> Result<(), Fail> {
        match first {
            b'"' => self.string().map(drop),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number_end().map(drop),
        }
    }
}

impl<'de> Source<'de> for Text<'de> {
    #[inline]
    fn peek(&mut self) -> Result<Kind, Fail> {
        Ok(match self.space() {
            b'"' => Kind::Str,
            b'{' => Kind::Map,
            b'[' => Kind::List,
            b'-' | b'0'..=b'9' => Kind::Number,
            b't' | b'f' => Kind::Bool,
            b'n' => Kind::Null,
            _ => return Err(Fail::Syntax),
        })
    }

    fn null(&mut self) -> Result<(), Fail> {
        self.word("null")
    }

    fn bool(&mut self) -> Result<bool, Fail> {
        if self.byte() == b't' { self.word("true").map(|()| true) } else { self.word("false").map(|()| false) }
    }

    fn number(&mut self) -> Result<Num<'de>, Fail> {
        let start = self.at;
        let whole = self.number_end()?;
        let text = self.slice(start, self.at);
        if whole && let Ok(n) = text.parse() {
            return Ok(Num::Int(n));
        }
        Ok(Num::Text(Cow::Borrowed(text)))
    }

    #[inline]
    fn str(&mut self) -> Result<Cow<'de, str>, Fail> {
        self.string()
    }

    #[inline]
    fn begin(&mut self) {
        self.at += 1;
    }

    #[inline]
    fn next_item(&mut self, first: bool) -> Result<bool, Fail> {
        match self.space() {
            b']' => {
                self.at += 1;
                Ok(false)
            }
            _ if first => Ok(true),
            b',' => {
                self.at += 1;
                Ok(true)
            }
            _ => Err(Fail::Syntax),
        }
    }

    #[inline]
    fn next_key(&mut self, first: bool) -> Result<Option<Cow<'de, str>>, Fail> {
        match self.space() {
            b'}' => {
                self.at += 1;
                return Ok(None);
            }
            b',' if !first => {
                self.at += 1;
                if self.space() != b'"' {
                    return Err(Fail::Syntax);
                }
            }
            b'"' if first => {}
            _ => return Err(Fail::Syntax),
        }
        let key = self.string()?;
        if self.space() != b':' {
            return Err(Fail::Syntax);
        }
        self.at += 1;
        Ok(Some(key))
    }

    fn skip(&mut self, depth: u32) -> Result<(), Fail> {
        // One flag per open container, whether the container is a map: the client chooses the nesting, so recursion could overflow the stack.
        let mut open: Vec<bool> = Vec::new();
        loop {
            let byte = self.space();
            let mut first = false;
            if byte == b'{' || byte == b'[' {
                if depth as usize + open.len() >= MAX_NESTING as usize {
                    return Err(Fail::Depth);
                }
                self.at += 1;
                open.push(byte == b'{');
                first = true;
            } else {
                self.scalar(byte)?;
            }
            loop {
                match open.last() {
                    None => return Ok(()),
                    Some(true) => {
                        if self.next_key(first)?.is_some() {
                            break;
                        }
                    }
                    Some(false) => {
                        if self.next_item(first)? {
                            break;
                        }
                    }
                }
                open.pop();
                first = false;
            }
        }
    }

    fn raw(&mut self, depth: u32) -> Result<Cow<'de, str>, Fail> {
        self.space();
        let start = self.at;
        self.skip(depth)?;
        Ok(compact(self.slice(start, self.at)))
    }
}

#[inline]
fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

/// Skips blocks without a special byte. The processor examines the bytes of a block in parallel.
fn behind_plain_blocks(mut rest: &[u8]) -> &[u8] {
    while let Some((block, tail)) = rest.split_first_chunk::<64>() {
        if block.iter().fold(false, |found, byte| found | is_special(*byte)) {
            break;
        }
        rest = tail;
    }
    rest
}

/// Finds the bytes that are a quote, a backslash or a control character.
#[inline]
fn special_bytes(word: u64) -> u64 {
    words::equal(word, b'"') | words::equal(word, b'\\') | words::below(word, 0x20)
}

/// Removes space outside of texts from JSON text.
fn compact(text: &str) -> Cow<'_, str> {
    let is_space = |b: u8| matches!(b, b' ' | b'\n' | b'\r' | b'\t');
    if !text.bytes().any(is_space) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let (mut inside, mut escaped) = (false, false);
    for c in text.chars() {
        if inside {
            inside = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if c == '"' {
            inside = true;
        } else if c.is_ascii() && is_space(c as u8) {
            continue;
        }
        out.push(c);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_end_of_long_texts() {
        for length in 0..300 {
            let text = format!("\"{}\",", "é".repeat(length));
            assert_eq!(Text::new(&text).plain(1).ok(), Some(2 * length + 1));
            for (special, found) in [("\\", Some(2 * length + 1)), ("\n", None)] {
                let text = text.replace("\",", &format!("{special}{}", "x".repeat(100)));
                assert_eq!(Text::new(&text).plain(1).ok(), found, "{length}");
            }
        }
    }

    #[test]
    fn finds_the_first_special_byte_of_eight() {
        for at in 0..8 {
            for byte in 0..=255_u8 {
                for filler in [b'a', 0x21, 0x23, 0x5b, 0x5d, 0x20, 0x7f, 0x80, 0xff] {
                    let mut chunk = [filler; 8];
                    chunk[at] = byte;
                    let found = special_bytes(u64::from_le_bytes(chunk)).trailing_zeros() / 8;
                    let special = byte < 0x20 || byte == b'"' || byte == b'\\';
                    assert_eq!(found as usize, if special { at } else { 8 }, "{byte:#x} at {at} in {filler:#x}");
                }
            }
        }
    }
}

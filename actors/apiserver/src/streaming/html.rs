//! HTML, as far as links need it: a filter that passes every byte through, except for the values of attributes that hold links.
//!
//! Upstream parses and writes every tag anew with Go's tokenizer; here a tag changes only where a link changes. The longest tag that is parsed bounds the
//! memory: a longer one passes unchanged.

use std::io::{self, Write};
use std::ops::Range;

use super::links::Through;

/// Length up to which a tag is parsed.
const LONGEST: usize = 64 << 10;

/// Which attributes hold links, by element (upstream: `atomsToAttrs`).
const LINKS: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose content is text: only their own end tag ends it.
const RAW: [&str; 8] = ["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"];

/// Where in a document the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Text,
    Comment,
    /// A declaration or an instruction, up to the next `>`.
    Declaration,
    /// Inside an element of [`RAW`].
    Raw(&'static str),
    /// Behind `<plaintext>`, which has no end.
    Plain,
}

/// The filter: what is written to it comes out of `out`.
#[derive(Debug)]
pub(super) struct Rewriter<W> {
    out: W,
    through: Through,
    at: At,
    /// Bytes that cannot be passed on before more have come.
    pending: Vec<u8>,
}

/// What to do with the beginning of the pending bytes.
enum Step {
    /// This many bytes pass unchanged.
    Pass(usize, At),
    /// A complete start tag.
    Tag(Tag),
    /// More bytes must come first.
    Wait,
}

impl<W: Write> Rewriter<W> {
    pub(super) fn new(out: W, through: Through) -> Self {
        Self { out, through, at: At::Text, pending: Vec::new() }
    }

    pub(super) fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Writes the pending bytes at the end of the document, and returns `out`.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&self.pending)?;
        Ok(self.out)
    }

    fn advance(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_slice();
        while !rest.is_empty() {
            match step(self.at, rest) {
                Step::Wait => break,
                Step::Pass(length, at) => {
                    let (passed, after) = rest.split_at_checked(length.max(1)).unwrap_or((rest, &[]));
                    self.out.write_all(passed)?;
                    (rest, self.at) = (after, at);
                }
                Step::Tag(tag) => {
                    let (text, after) = rest.split_at_checked(tag.length).unwrap_or((rest, &[]));
                    self.tag(text, &tag)?;
                    (rest, self.at) = (after, tag.then());
                }
            }
        }
        self.pending = rest.to_vec();
        Ok(())
    }

    fn tag(&mut self, text: &[u8], tag: &Tag) -> io::Result<()> {
        let mut written = 0;
        for value in &tag.links {
            let link =
                text.get(value.inner.clone()).and_then(|bytes| std::str::from_utf8(bytes).ok()).and_then(unescaped);
            let Some(link) = link.and_then(|link| self.through.link(&link)) else { continue };
            self.out.write_all(text.get(written..value.outer.start).unwrap_or_default())?;
            write!(self.out, "\"{}\"", escaped(&link))?;
            written = value.outer.end;
        }
        self.out.write_all(text.get(written..).unwrap_or_default())
    }
}

impl<W: Write> Write for Rewriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        self.advance()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn step(at: At, rest: &[u8]) -> Step {
    match at {
        At::Text => text(rest),
        At::Plain => Step::Pass(rest.len(), at),
        At::Comment => until(at, rest, b"-->", At::Text),
        At::Declaration => until(at, rest, b">", At::Text),
        At::Raw(element) => raw(element, rest),
    }
}

/// Passes everything up to and with `mark`. Without a mark, passes all but the last bytes, which could be the beginning of one.
fn until(at: At, rest: &[u8], mark: &[u8], then: At) -> Step {
    if let Some(found) = memchr::memmem::find(rest, mark) {
        return Step::Pass(found + mark.len(), then);
    }
    match rest.len().saturating_sub(mark.len() - 1) {
        0 => Step::Wait,
        safe => Step::Pass(safe, at),
    }
}

/// As [`until`] for the end tag of an element, of which only `</` is passed; the rest is read as text.
fn raw(element: &'static str, rest: &[u8]) -> Step {
    let at = At::Raw(element);
    let Some(found) = memchr::memchr(b'<', rest) else { return Step::Pass(rest.len(), at) };
    if found > 0 {
        return Step::Pass(found, at);
    }
    let Some(name) = rest.get(2..2 + element.len()) else {
        // The bytes may still become the end tag, unless they differ from it already.
        let begun = rest.get(1).is_none_or(|slash| *slash == b'/')
            && rest.get(2..).unwrap_or_default().iter().zip(element.bytes()).all(|(a, b)| a.eq_ignore_ascii_case(&b));
        return if begun { Step::Wait } else { Step::Pass(1, at) };
    };
    if rest.get(1) != Some(&b'/') || !name.eq_ignore_ascii_case(element.as_bytes()) {
        return Step::Pass(1, at);
    }
    match rest.get(2 + element.len()) {
        None => Step::Wait,
        Some(b'>' | b'/') => Step::Pass(2, At::Text),
        Some(space) if space.is_ascii_whitespace() => Step::Pass(2, At::Text),
        Some(_) => Step::Pass(1, at),
    }
}

fn text(rest: &[u8]) -> Step {
    match memchr::memchr(b'<', rest) {
        None => return Step::Pass(rest.len(), At::Text),
        Some(0) => {}
        Some(found) => return Step::Pass(found, At::Text),
    }
    match (rest.get(1), rest.get(2), rest.get(3)) {
        (None, ..) => Step::Wait,
        (Some(b'!'), None, _) | (Some(b'!'), Some(b'-'), None) => Step::Wait,
        // `<!-->` is a whole comment, so only `<!` is passed here: the dashes may belong to the comment's end.
        (Some(b'!'), Some(b'-'), Some(b'-')) => Step::Pass(2, At::Comment),
        (Some(b'!' | b'?'), ..) => Step::Pass(1, At::Declaration),
        (Some(first), ..) if first.is_ascii_alphabetic() => match Tag::read(rest) {
            Some(tag) => Step::Tag(tag),
            None if rest.len() > LONGEST => Step::Pass(1, At::Text),
            None => Step::Wait,
        },
        _ => Step::Pass(1, At::Text),
    }
}

/// A start tag.
struct Tag {
    /// From `<` to `>`, with both.
    length: usize,
    name: String,
    /// The values that hold links.
    links: Vec<Value>,
}

/// The value of an attribute.
struct Value {
    /// With its quotes.
    outer: Range<usize>,
    /// Without.
    inner: Range<usize>,
}

impl Tag {
    /// Reads the tag at the beginning of `text`; `None` when its end has not come yet.
    fn read(text: &[u8]) -> Option<Self> {
        let mut cursor = Cursor { text, at: 1 };
        let name = cursor.word(|byte| !(byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>')))?;
        let name = String::from_utf8_lossy(text.get(name)?).to_ascii_lowercase();
        let holders = LINKS.iter().find(|(element, _)| *element == name).map_or(&[][..], |(_, holders)| holders);
        let mut links = Vec::new();
        loop {
            cursor.word(|byte| byte.is_ascii_whitespace() || byte == b'/')?;
            if cursor.peek()? == b'>' {
                return Some(Self { length: cursor.at + 1, name, links });
            }
            let start = cursor.at;
            // The first byte always belongs to the name, even a `=`.
            cursor.at += 1;
            cursor.word(|byte| !(byte.is_ascii_whitespace() || matches!(byte, b'=' | b'/' | b'>')))?;
            let holder = text.get(start..cursor.at)?;
            let holds = holders.iter().any(|name| holder.eq_ignore_ascii_case(name.as_bytes()));
            cursor.word(|byte| byte.is_ascii_whitespace())?;
            if cursor.peek()? != b'=' {
                continue;
            }
            cursor.at += 1;
            cursor.word(|byte| byte.is_ascii_whitespace())?;
            let value = cursor.value()?;
            if holds {
                links.push(value);
            }
        }
    }

    /// What its content is.
    fn then(&self) -> At {
        match RAW.iter().find(|raw| **raw == self.name) {
            Some(raw) => At::Raw(raw),
            None if self.name == "plaintext" => At::Plain,
            None => At::Text,
        }
    }
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// The range of the bytes for which `part` holds; `None` when the text ends with them.
    fn word(&mut self, part: impl Fn(u8) -> bool) -> Option<Range<usize>> {
        let start = self.at;
        while part(self.peek()?) {
            self.at += 1;
        }
        Some(start..self.at)
    }

    fn value(&mut self) -> Option<Value> {
        let quote = self.peek()?;
        if !matches!(quote, b'"' | b'\'') {
            let inner = self.word(|byte| !(byte.is_ascii_whitespace() || byte == b'>'))?;
            return Some(Value { outer: inner.clone(), inner });
        }
        let start = self.at;
        self.at += 1;
        let inner = self.word(|byte| byte != quote)?;
        self.at += 1;
        Some(Value { outer: start..self.at, inner })
    }
}

/// Replaces the ampersand of a character reference that is not resolved here, so that the reference comes out unchanged. The character is for private use; no
/// link contains it.
const KEPT: char = '\u{f8ff}';

/// A value with its numeric character references, and those of characters that must be escaped, resolved. `None` when the value contains [`KEPT`].
fn unescaped(text: &str) -> Option<String> {
    if text.contains(KEPT) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let reference = after.find(';').and_then(|end| Some((after.get(..end)?, after.get(end + 1..)?)));
        let known = reference.and_then(|(name, behind)| Some((resolved(name)?, behind)));
        match (known, reference) {
            (Some((character, behind)), _) => {
                out.push(character);
                rest = behind;
            }
            (None, Some((name, _))) if name.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                out.push(KEPT);
                rest = after;
            }
            (None, _) => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Some(out)
}

fn resolved(name: &str) -> Option<char> {
    let number = |digits, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "sol" => Some('/'),
        _ => match name.strip_prefix('#')? {
            hexadecimal if hexadecimal.starts_with(['x', 'X']) => number(hexadecimal.get(1..)?, 16),
            decimal => number(decimal, 10),
        }
        .filter(|character| *character != KEPT),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '\r' => out.push_str("&#13;"),
            KEPT => out.push('&'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(html: &str, piece: usize) -> String {
        let through = Through { prefix: "/p".to_owned(), backend: "b:80".to_owned(), called: "c".to_owned() };
        let mut rewriter = Rewriter::new(Vec::new(), through);
        for piece in html.as_bytes().chunks(piece) {
            rewriter.write_all(piece).unwrap();
        }
        String::from_utf8(rewriter.finish().unwrap()).unwrap()
    }

    /// However it comes in pieces.
    #[track_caller]
    fn check(html: &str, expected: &str) {
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(rewritten(html, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn links_of_tags_are_rewritten_and_nothing_else() {
        check(r#"<a href="/x">/x</a>"#, r#"<a href="/p/x">/x</a>"#);
        check("<!DOCTYPE html><A HREF='/x' class=b>", r#"<!DOCTYPE html><A HREF="/p/x" class=b>"#);
        check("<img src=/x usemap = '/y'/>", r#"<img src="/p/x" usemap = "/p/y"/>"#);
        check(r#"<a title="a > b" href="/x" href=y>"#, r#"<a title="a > b" href="/p/x" href=y>"#);
        check(r#"<p href="/x"><a data-href="/x" href>"#, r#"<p href="/x"><a data-href="/x" href>"#);
        check(r#"1 < 2 <3 </a href="/x"> <"#, r#"1 < 2 <3 </a href="/x"> <"#);
    }

    #[test]
    fn comments_and_scripts_stay_as_they_are() {
        for html in [
            r#"<!-- <a href="/x"> -->"#,
            r#"<!--><p>"#,
            r#"<style>a:before { content: "<a href='/x'>" }</style>"#,
            r#"<title><a href="/x"></title>"#,
            r#"<textarea></textareas><a href="/x"></TEXTAREA >"#,
            r#"<plaintext><a href="/x">"#,
            r#"<?xml href="/x"?>"#,
            r#"<script>if (a </b/.test("</scrip")) { write('<a href="/x">') }"#,
        ] {
            check(html, html);
        }
        check(
            r#"<script src="/s.js">"<a href='/x'>"</script><a href="/x">"#,
            r#"<script src="/p/s.js">"<a href='/x'>"</script><a href="/p/x">"#,
        );
        check("<!-- > --><a href=/x>", r#"<!-- > --><a href="/p/x">"#);
    }

    #[test]
    fn character_references_mean_what_they_meant() {
        check(r#"<a href="&#x2F;x?a=1&amp;b=2&c=3&copy;">"#, r#"<a href="/p/x?a=1&amp;b=2&amp;c=3&copy;">"#);
        check(r#"<a href='/x?q="&#39;'>"#, r#"<a href="/p/x?q=&#34;&#39;">"#);
    }

    #[test]
    fn a_tag_without_an_end_costs_no_memory_without_bound() {
        let through = Through { prefix: "/p".to_owned(), backend: "b:80".to_owned(), called: "c".to_owned() };
        let mut rewriter = Rewriter::new(io::sink(), through);
        for _ in 0..1000 {
            rewriter.write_all(&[b'a'; 1000]).unwrap();
            rewriter.write_all(b"<a b=\"").unwrap();
            assert!(rewriter.pending.len() < 2 * LONGEST, "{}", rewriter.pending.len());
        }
    }
}

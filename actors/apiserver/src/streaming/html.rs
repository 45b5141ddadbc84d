//! A filter for HTML that changes only the attribute values that hold links, and passes all other bytes unchanged.
//!
//! Upstream re-encodes every tag with Go's tokenizer; here a tag changes only where a link does. Memory is bounded by the longest tag that is parsed:
//! a longer tag passes unchanged. The pages come from pods, which may be hostile. Each byte is examined once, or a few times where a mark may begin,
//! however the page is split into chunks and whichever construct never ends.

use std::io::{self, Write};

use super::links::ProxyAddresses;
use super::tags::{Reading, Tag};

/// Maximum length in bytes of a tag that is parsed.
const MAX_TAG_BYTES: usize = 64 << 10;

/// Elements whose content is raw text up to their end tag.
const RAW: [&str; 8] = ["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"];

/// The context of the next byte in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Text,
    /// Inside a start tag.
    Tag,
    Comment,
    /// Inside a declaration or processing instruction, up to the next `>`.
    Declaration,
    /// Inside an element of [`RAW`].
    Raw(&'static str),
    /// After `<plaintext>`, which has no end.
    Plain,
}

/// The filter: writes the filtered document to `out`.
#[derive(Debug)]
pub(super) struct Rewriter<W> {
    out: W,
    through: ProxyAddresses,
    at: At,
    /// Bytes that cannot be passed on before more input arrives.
    pending: Vec<u8>,
    /// Parser of the tag at the beginning of `pending`.
    reading: Reading,
    /// Number of bytes received.
    taken: u64,
}

/// What to do with the beginning of the pending bytes.
enum Step {
    /// Passes this many bytes unchanged.
    Pass(usize, At),
    /// Parses a start tag.
    Tag,
    /// Waits for more input.
    Wait,
}

impl<W: Write> Rewriter<W> {
    pub(super) fn new(out: W, through: ProxyAddresses) -> Self {
        Self { out, through, at: At::Text, pending: Vec::new(), reading: Reading::default(), taken: 0 }
    }

    pub(super) fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Returns the number of bytes received so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Writes the remaining bytes at the end of the input, and returns the inner writer.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&self.pending)?;
        Ok(self.out)
    }

    fn advance(&mut self) -> io::Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        let mut passed = 0;
        while let Some(rest) = pending.get(passed..).filter(|rest| !rest.is_empty()) {
            let length = if self.at == At::Tag { self.in_tag(rest)? } else { self.pass(rest)? };
            match length {
                Some(length) => passed += length,
                None => break,
            }
        }
        // If any bytes were passed, then all that were pending before: the remainder is from the new input.
        pending.drain(..passed.min(pending.len()));
        self.pending = pending;
        Ok(())
    }

    /// Processes input outside of tags. Returns the number of bytes written, `None` when more input is needed.
    fn pass(&mut self, rest: &[u8]) -> io::Result<Option<usize>> {
        match step(self.at, rest) {
            Step::Wait => Ok(None),
            Step::Tag => {
                (self.at, self.reading) = (At::Tag, Reading::default());
                Ok(Some(0))
            }
            Step::Pass(length, at) => {
                let length = length.clamp(1, rest.len());
                self.out.write_all(rest.get(..length).unwrap_or(rest))?;
                self.at = at;
                Ok(Some(length))
            }
        }
    }

    /// As [`Rewriter::pass`], for input inside a tag. Parsing continues where it stopped.
    fn in_tag(&mut self, rest: &[u8]) -> io::Result<Option<usize>> {
        if let Some(tag) = self.reading.read(rest) {
            let length = tag.length.clamp(1, rest.len());
            let text = rest.get(..length).unwrap_or(rest);
            if self.reading.forgot() || length > MAX_TAG_BYTES {
                self.out.write_all(text)?;
            } else {
                self.tag(text, &tag)?;
            }
            self.at = then(&tag);
            return Ok(Some(length));
        }
        if rest.len() <= MAX_TAG_BYTES {
            return Ok(None);
        }
        self.out.write_all(rest)?;
        self.reading.forget();
        Ok(Some(rest.len()))
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
        self.taken += bytes.len() as u64;
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
        At::Tag => Step::Tag,
        At::Plain => Step::Pass(rest.len(), at),
        At::Comment => until(at, rest, b"-->", At::Text),
        At::Declaration => until(at, rest, b">", At::Text),
        At::Raw(element) => raw(element, rest),
    }
}

/// Passes all bytes up to and including `mark`. Without a mark, passes all but the last bytes, which could be its beginning.
fn until(at: At, rest: &[u8], mark: &[u8], then: At) -> Step {
    if let Some(found) = memchr::memmem::find(rest, mark) {
        return Step::Pass(found + mark.len(), then);
    }
    match rest.len().saturating_sub(mark.len() - 1) {
        0 => Step::Wait,
        safe => Step::Pass(safe, at),
    }
}

/// As [`until`], for the end tag of a raw text element. Only the `</` is passed; the rest is parsed as text.
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
        (Some(first), ..) if first.is_ascii_alphabetic() => Step::Tag,
        _ => Step::Pass(1, At::Text),
    }
}

/// Returns the context after a tag.
fn then(tag: &Tag) -> At {
    match RAW.iter().find(|raw| **raw == tag.name) {
        Some(raw) => At::Raw(raw),
        None if tag.name == "plaintext" => At::Plain,
        None => At::Text,
    }
}

/// Maximum length at which a character reference is recognized; the longest name has 31 letters.
const MAX_REFERENCE_BYTES: usize = 40;

/// Stands for the ampersand of a character reference that is not resolved here, so that the reference is written unchanged. The character is for
/// private use; no link contains it.
const KEPT_AMPERSAND: char = '\u{f8ff}';

/// Resolves the numeric character references in a value, and those of characters that must be escaped. `None` when the value contains [`KEPT_AMPERSAND`].
fn unescaped(text: &str) -> Option<String> {
    if text.contains(KEPT_AMPERSAND) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let near = after.as_bytes().get(..MAX_REFERENCE_BYTES).unwrap_or(after.as_bytes());
        let end = memchr::memchr(b';', near);
        let reference = end.and_then(|end| Some((after.get(..end)?, after.get(end + 1..)?)));
        let known = reference.and_then(|(name, behind)| Some((resolved(name)?, behind)));
        match (known, reference) {
            (Some((character, behind)), _) => {
                out.push(character);
                rest = behind;
            }
            (None, Some((name, _))) if name.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                out.push(KEPT_AMPERSAND);
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
        .filter(|character| *character != KEPT_AMPERSAND),
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
            KEPT_AMPERSAND => out.push('&'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use oarlock_testkit::work::too_steep;

    use super::*;

    fn rewritten(html: &str, piece: usize) -> String {
        let through = ProxyAddresses { prefix: "/p".to_owned(), backend: "b:80".to_owned(), called: "c".to_owned() };
        let mut rewriter = Rewriter::new(Vec::new(), through);
        for piece in html.as_bytes().chunks(piece) {
            rewriter.write_all(piece).unwrap();
        }
        String::from_utf8(rewriter.finish().unwrap()).unwrap()
    }

    /// Checks the output for every split of the input.
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
        let through = ProxyAddresses { prefix: "/p".to_owned(), backend: "b:80".to_owned(), called: "c".to_owned() };
        let mut rewriter = Rewriter::new(io::sink(), through);
        for _ in 0..1000 {
            rewriter.write_all(&[b'a'; 1000]).unwrap();
            rewriter.write_all(b"<a b=\"").unwrap();
            assert!(rewriter.pending.len() < 2 * MAX_TAG_BYTES, "{}", rewriter.pending.len());
        }
    }

    #[test]
    fn a_page_costs_no_more_than_its_length_whatever_never_ends_in_it() {
        let pages: [fn(usize) -> String; 9] = [
            |n| "<a".repeat(n),
            |n| "<a href=/x ".repeat(n),
            |n| format!("<a {}", "b='".repeat(n)),
            |n| format!("<a href='{}'>", "&".repeat(n)),
            |n| format!("<a href='/{};'>", "&".repeat(n)),
            |n| format!("<a href='/{}'>", "&a".repeat(n)),
            |n| "<!-".repeat(n),
            |n| format!("<script>{}", "</scrip".repeat(n)),
            |n| "<a href='/x'>".repeat(n),
        ];
        for (i, page) in pages.into_iter().enumerate() {
            for (piece, n) in [(1, 100_000), (7, 100_000), (32 << 10, 400_000)] {
                let steep = too_steep(n, page, |html| rewritten(html, piece).len());
                assert_eq!(steep, None, "page {i} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_tag_that_is_too_long_goes_through_as_it_is_up_to_its_end() {
        let long = format!(r#"<script title="{}>" src="/x">"#, "b".repeat(MAX_TAG_BYTES));
        for piece in [1, 1000, 1 << 20] {
            let html = format!(r#"{long}<a href="/x"></script><a href="/x">"#);
            let expected = format!(r#"{long}<a href="/x"></script><a href="/p/x">"#);
            assert!(rewritten(&html, piece) == expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_reference_is_looked_for_as_far_as_names_are_long() {
        check(
            r#"<a href="/x?a&CounterClockwiseContourIntegral;">"#,
            r#"<a href="/p/x?a&CounterClockwiseContourIntegral;">"#,
        );
        let far = "b".repeat(100);
        check(&format!(r#"<a href="/x?a&{far};">"#), &format!(r#"<a href="/p/x?a&amp;{far};">"#));
    }
}

//! An incremental parser of HTML start tags: it stops at the end of the input and continues there, so that no byte is parsed twice.

use std::ops::Range;

/// Attributes that hold links, by element (upstream: `atomsToAttrs`).
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

/// Number of bytes of an element's name that are kept: more than any known name has.
const MAX_NAME_BYTES: usize = 32;

/// A complete start tag.
pub(super) struct Tag {
    /// Length from `<` to `>` inclusive; of a tag whose beginning was dropped, the length of the rest.
    pub(super) length: usize,
    pub(super) name: String,
    /// The attribute values that hold links.
    pub(super) links: Vec<Value>,
}

/// Position of an attribute's value.
#[derive(Debug)]
pub(super) struct Value {
    /// Including quotes.
    pub(super) outer: Range<usize>,
    /// Excluding quotes.
    pub(super) inner: Range<usize>,
}

/// The part of a tag that the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// The `<`.
    #[default]
    Start,
    Name,
    /// Between attributes.
    Between,
    Attribute,
    /// After the name of an attribute.
    Named,
    /// After the `=`.
    Equals,
    Bare,
    Quoted(u8),
}

/// State of the parser.
#[derive(Debug, Default)]
pub(super) struct Reading {
    part: Part,
    /// Number of bytes parsed.
    at: usize,
    /// Position at which the current part began.
    start: usize,
    name: String,
    /// Names of the attributes that hold links.
    holders: &'static [&'static str],
    /// Whether the current attribute holds a link.
    holds: bool,
    links: Vec<Value>,
    forgot: bool,
}

impl Reading {
    /// Continues parsing the text, which begins with the tag; returns the tag when its end has arrived.
    pub(super) fn read(&mut self, text: &[u8]) -> Option<Tag> {
        loop {
            if let Part::Quoted(quote) = self.part {
                // A value may be long, and only its quote ends it.
                match memchr::memchr(quote, text.get(self.at..)?) {
                    Some(found) => self.at += found,
                    None => {
                        self.at = text.len();
                        return None;
                    }
                }
            }
            let byte = *text.get(self.at)?;
            if self.part == Part::Between && byte == b'>' {
                let (name, links) = (std::mem::take(&mut self.name), std::mem::take(&mut self.links));
                return Some(Tag { length: self.at + 1, name, links });
            }
            if self.takes(text, byte) {
                self.at += 1;
            }
        }
    }

    /// Processes a byte; returns false when the byte belongs to the next part.
    fn takes(&mut self, text: &[u8], byte: u8) -> bool {
        let space = byte.is_ascii_whitespace();
        match self.part {
            Part::Start => self.part = Part::Name,
            Part::Name if space || matches!(byte, b'/' | b'>') => {
                self.part = Part::Between;
                self.holders = LINKS.iter().find(|(element, _)| *element == self.name).map_or(&[], |(_, names)| names);
                return false;
            }
            // A name with other bytes is no known element.
            Part::Name if self.name.len() < MAX_NAME_BYTES => self.name.push(char::from(byte.to_ascii_lowercase())),
            Part::Between if space || byte == b'/' => {}
            // The first byte belongs to the name even if it is a `=`.
            Part::Between => (self.part, self.start) = (Part::Attribute, self.at),
            Part::Attribute if space || matches!(byte, b'=' | b'/' | b'>') => {
                let name = text.get(self.start..self.at).unwrap_or_default();
                self.holds = self.holders.iter().any(|holder| name.eq_ignore_ascii_case(holder.as_bytes()));
                self.part = Part::Named;
                return false;
            }
            Part::Named if byte == b'=' => self.part = Part::Equals,
            Part::Named if !space => {
                self.part = Part::Between;
                return false;
            }
            Part::Equals if matches!(byte, b'"' | b'\'') => (self.part, self.start) = (Part::Quoted(byte), self.at),
            Part::Equals if !space => {
                (self.part, self.start) = (Part::Bare, self.at);
                return false;
            }
            Part::Bare if space || byte == b'>' => {
                self.ends(self.start..self.at, self.start..self.at);
                return false;
            }
            // The only byte that arrives here in a quoted value is its quote.
            Part::Quoted(_) => self.ends(self.start..self.at + 1, self.start + 1..self.at),
            Part::Name | Part::Attribute | Part::Named | Part::Equals | Part::Bare => {}
        }
        true
    }

    /// Records the end of a value.
    fn ends(&mut self, outer: Range<usize>, inner: Range<usize>) {
        if self.holds && !self.forgot {
            self.links.push(Value { outer, inner });
        }
        self.part = Part::Between;
    }

    /// Drops the bytes parsed so far, because the tag is too long to be kept. No more links are recorded.
    pub(super) fn forget(&mut self) {
        self.links = Vec::new();
        (self.at, self.start, self.forgot) = (0, 0, true);
    }

    /// Whether the beginning of the tag was dropped.
    pub(super) fn forgot(&self) -> bool {
        self.forgot
    }
}

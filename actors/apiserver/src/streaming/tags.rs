//! Start tags of HTML, read as they come: reading stops where the text does and goes on there, so that no byte is looked at again.

use std::ops::Range;

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

/// As many bytes of an element's name are kept: more than any name has that means something here.
const LONGEST_NAME: usize = 32;

/// A start tag.
pub(super) struct Tag {
    /// From `<` to `>`, with both; of a tag whose beginning was forgotten, what came since.
    pub(super) length: usize,
    pub(super) name: String,
    /// The values that hold links.
    pub(super) links: Vec<Value>,
}

/// The value of an attribute.
#[derive(Debug)]
pub(super) struct Value {
    /// With its quotes.
    pub(super) outer: Range<usize>,
    /// Without.
    pub(super) inner: Range<usize>,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// The `<`.
    #[default]
    Start,
    Name,
    /// Between attributes.
    Between,
    Attribute,
    /// Behind the name of an attribute.
    Named,
    /// Behind the `=`.
    Equals,
    Bare,
    Quoted(u8),
}

/// How far a tag has been read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    part: Part,
    /// So much of the text has been read.
    at: usize,
    /// Where the part began that is read.
    start: usize,
    name: String,
    /// Which attributes hold links.
    holders: &'static [&'static str],
    /// The attribute does.
    holds: bool,
    links: Vec<Value>,
    forgot: bool,
}

impl Reading {
    /// Goes on in the text, which begins with the tag; the tag when it has its end there.
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

    /// Whether the byte is used up; else it belongs to the next part.
    fn takes(&mut self, text: &[u8], byte: u8) -> bool {
        let space = byte.is_ascii_whitespace();
        match self.part {
            Part::Start => self.part = Part::Name,
            Part::Name if space || matches!(byte, b'/' | b'>') => {
                self.part = Part::Between;
                self.holders = LINKS.iter().find(|(element, _)| *element == self.name).map_or(&[], |(_, names)| names);
                return false;
            }
            // A name with other bytes has no meaning here.
            Part::Name if self.name.len() < LONGEST_NAME => self.name.push(char::from(byte.to_ascii_lowercase())),
            Part::Between if space || byte == b'/' => {}
            // The first byte is the name's even if it is a `=`.
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
            // Only its quote comes here.
            Part::Quoted(_) => self.ends(self.start..self.at + 1, self.start + 1..self.at),
            Part::Name | Part::Attribute | Part::Named | Part::Equals | Part::Bare => {}
        }
        true
    }

    /// A value ends.
    fn ends(&mut self, outer: Range<usize>, inner: Range<usize>) {
        if self.holds && !self.forgot {
            self.links.push(Value { outer, inner });
        }
        self.part = Part::Between;
    }

    /// Goes on without what has come so far, which is too long to be kept. Links are not looked for any more.
    pub(super) fn forget(&mut self) {
        self.links = Vec::new();
        (self.at, self.start, self.forgot) = (0, 0, true);
    }

    /// Whether something was forgotten.
    pub(super) fn forgot(&self) -> bool {
        self.forgot
    }
}

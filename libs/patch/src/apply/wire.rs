//! Reads and writes `fieldsV1`, the JSON form of field sets.

use oarlock_codec::{Mode, json};
use oarlock_schema::{Str, Value};

use super::element::Element;
use super::set::{FieldSet, Node};

/// Reads a `fieldsV1` text; `None` for an invalid text, in which case upstream drops all owners of the object.
#[must_use]
pub fn decode(text: &str) -> Option<FieldSet> {
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    if let Some(node) = reader.node(0)
        && reader.at == text.len()
    {
        return Some(node.children);
    }
    let value = json::decode_value(text.as_bytes(), Mode::Lenient).ok()?.value;
    if value.is_null() {
        return Some(FieldSet::default());
    }
    node(&value).map(|node| node.children)
}

/// Whether the set in a `fieldsV1` text shares a path with `set`, determined without parsing the text into a set: most entries of most objects are unrelated to
/// a write. A text in a form that servers never write counts as sharing a path.
#[must_use]
pub(super) fn touches(text: &str, set: &FieldSet) -> bool {
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    reader.touches(set, false, 0).unwrap_or(true)
}

/// A reader of the form that servers write: no spaces, nested objects only. Any other form is left to the JSON decoder.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, byte: u8) -> bool {
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn node(&mut self, depth: usize) -> Option<Node> {
        if depth > 100 || !self.take(b'{') {
            return None;
        }
        if self.take(b'}') {
            return Some(Node::leaf());
        }
        let mut out = Node::default();
        let mut nodes = Vec::new();
        loop {
            let element = self.key()?;
            if !self.take(b':') {
                return None;
            }
            let node = self.node(depth + 1)?;
            match element {
                Some(element) => nodes.push((element, node)),
                None => out.member = true,
            }
            if self.take(b'}') {
                out.children = FieldSet::of_nodes(nodes);
                return Some(out);
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    /// Whether the node at the cursor shares a path with the paths below `set`, or is a member while `wanted` is true.
    fn touches(&mut self, set: &FieldSet, wanted: bool, depth: usize) -> Option<bool> {
        if depth > 100 || !self.take(b'{') {
            return None;
        }
        if self.take(b'}') {
            return Some(wanted);
        }
        loop {
            if self.rest()?.starts_with(b"\".\":{}") {
                if wanted {
                    return Some(true);
                }
                self.at += 6;
            } else {
                let node = match self.plain_field() {
                    Some(name) => set.field(name),
                    None => set.get(&self.key()??),
                };
                if !self.take(b':') {
                    return None;
                }
                match node {
                    Some(node) => {
                        if self.touches(&node.children, node.member, depth + 1)? {
                            return Some(true);
                        }
                    }
                    None => self.skip()?,
                }
            }
            if self.take(b'}') {
                return Some(false);
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn rest(&self) -> Option<&[u8]> {
        self.text.get(self.at..)
    }

    /// Reads the name in a key `"f:name"` without escapes; any other key is not consumed.
    fn plain_field(&mut self) -> Option<&str> {
        let start = self.at + 3;
        let rest = self.rest()?.strip_prefix(b"\"f:")?;
        let end = memchr::memchr2(b'"', b'\\', rest)?;
        if rest.get(end) != Some(&b'"') {
            return None;
        }
        self.at = start + end + 1;
        std::str::from_utf8(self.text.get(start..start + end)?).ok()
    }

    /// Skips one node with its content.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match *self.text.get(self.at)? {
                b'{' => depth += 1,
                b'}' => depth = depth.checked_sub(1)?,
                b'"' => {
                    // Skips to the quote that ends the key: the next one without a preceding backslash.
                    loop {
                        self.at += 1;
                        self.at += memchr::memchr2(b'"', b'\\', self.rest()?)?;
                        if self.text.get(self.at) == Some(&b'"') {
                            break;
                        }
                        self.at += 1;
                    }
                }
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Reads a key: the element, or `None` for the dot.
    fn key(&mut self) -> Option<Option<Element>> {
        let rest = self.text.get(self.at..)?.strip_prefix(b"\"")?;
        let mut end = memchr::memchr2(b'"', b'\\', rest)?;
        if rest.get(end) == Some(&b'"') {
            let key = std::str::from_utf8(rest.get(..end)?).ok()?;
            self.at += end + 2;
            return Some(if key == "." { None } else { Some(Element::parse(key)?) });
        }
        // Keys of list items contain JSON, so nearly all of their escapes are quotes.
        let mut key = String::with_capacity(48);
        let mut from = 0;
        loop {
            key.push_str(std::str::from_utf8(rest.get(from..end)?).ok()?);
            match (rest.get(end)?, rest.get(end + 1)) {
                (b'"', _) => break,
                (_, Some(escaped @ (b'"' | b'\\'))) => key.push(char::from(*escaped)),
                _ => return None,
            }
            from = end + 2;
            end = from + memchr::memchr2(b'"', b'\\', rest.get(from..)?)?;
        }
        self.at += end + 2;
        Some(Some(Element::parse(&key)?))
    }
}

fn node(value: &Value) -> Option<Node> {
    let Value::Map(map) = value else { return None };
    if map.is_empty() {
        return Some(Node::leaf());
    }
    let mut out = Node::default();
    let mut nodes = Vec::with_capacity(map.len());
    for (key, value) in map.iter() {
        if key == "." {
            out.member = true;
        } else {
            nodes.push((Element::parse(key)?, node(value)?));
        }
    }
    out.children = FieldSet::of_nodes(nodes);
    Some(out)
}

/// Writes a set as `fieldsV1`, byte for byte as upstream.
#[must_use]
pub fn encode(set: &FieldSet) -> Str {
    let mut out = Vec::with_capacity(256);
    write(set, false, &mut out);
    String::from_utf8(out).map(Str::from).unwrap_or_default()
}

fn write(set: &FieldSet, member: bool, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut comma = false;
    if member && !set.is_empty() {
        out.extend_from_slice(b"\".\":{}");
        comma = true;
    }
    for (element, node) in set.nodes() {
        if std::mem::replace(&mut comma, true) {
            out.push(b',');
        }
        element.write_key(out);
        out.push(b':');
        write(&node.children, node.member, out);
    }
    out.push(b'}');
}

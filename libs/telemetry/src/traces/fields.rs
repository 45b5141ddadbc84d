//! The attributes, links and failure of a span in compact form, which takes a fraction of the memory and of the time that OpenTelemetry's own form takes. Each span in the ring has this form; it is
//! expanded when somebody reads the span or when the span is exported.

use std::borrow::Cow;

use opentelemetry::trace::{Link, SpanContext, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::trace::SpanData;

use super::bytes::{Reader, put_signed, put_text};
use super::change;
use super::id::Id;
use super::limits::{MAX_ATTRIBUTES, MAX_LINKS};
use super::links::{self, RELATION};
use super::subject::{self, Subject};
use super::words::WORDS;

/// The kind of a field: its first byte.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Tag {
    Subject,
    Text,
    Word,
    Integer,
    Float,
    Bool,
    Link,
    Failure,
}

const TAGS: [Tag; 8] =
    [Tag::Subject, Tag::Text, Tag::Word, Tag::Integer, Tag::Float, Tag::Bool, Tag::Link, Tag::Failure];

/// Flag of a link to a sampled span.
const SAMPLED: u8 = 1;
/// Flag of a link to a span of another process.
const REMOTE: u8 = 2;
/// Flag of a link to a root.
const ROOT: u8 = 4;

/// Fields of one span, one after the other: the tag, then the values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    bytes: Vec<u8>,
    attributes: usize,
    links: usize,
}

impl Fields {
    pub(crate) fn new() -> Self {
        /// Bytes of the fields of a commit or of a request, about.
        const USUAL: usize = 96;
        Self { bytes: Vec::with_capacity(USUAL), ..Self::default() }
    }

    /// Names the object of the span's life. A UID that is the trace id is not repeated.
    pub(crate) fn subject(&mut self, subject: &Subject<'_>, trace: TraceId) {
        let uid = if change::is_canonical(subject.uid, trace) { "" } else { subject.uid };
        self.tag(Tag::Subject);
        WORDS.put_text(subject.kind, &mut self.bytes);
        for text in [subject.namespace, subject.name, uid] {
            self.text(text);
        }
        put_signed(&mut self.bytes, subject.generation);
    }

    /// Adds an attribute with a text.
    pub(crate) fn attribute_text(&mut self, key: &'static str, value: &str) {
        self.field(Tag::Text, key, |to| put_text(to, value));
    }

    /// Adds an attribute with a word of the program.
    pub(crate) fn attribute_word(&mut self, key: &'static str, value: &'static str) {
        self.field(Tag::Word, key, |to| WORDS.put(value, to));
    }

    /// Adds an attribute. Of arrays, which no span has, nothing is kept.
    pub(crate) fn attribute(&mut self, key: &'static str, value: &Value) {
        match value {
            Value::String(text) => self.attribute_text(key, text.as_str()),
            Value::I64(number) => self.field(Tag::Integer, key, |to| put_signed(to, *number)),
            Value::F64(number) => self.field(Tag::Float, key, |to| to.extend_from_slice(&number.to_le_bytes())),
            Value::Bool(flag) => self.field(Tag::Bool, key, |to| to.push(u8::from(*flag))),
            _ => {}
        }
    }

    /// Adds a link to a valid span. Of the span's flags only "sampled" is kept, as by `traceparent`.
    pub(crate) fn link(&mut self, relation: &'static str, to: &SpanContext) {
        self.links += 1;
        if self.links <= MAX_LINKS {
            let id = Id::of(to.trace_id(), to.span_id());
            let flag = |set: bool, flag: u8| if set { flag } else { 0 };
            self.tag(Tag::Link);
            WORDS.put(relation, &mut self.bytes);
            self.bytes.push(flag(to.is_sampled(), SAMPLED) | flag(to.is_remote(), REMOTE) | flag(id.is_root(), ROOT));
            self.bytes.extend_from_slice(&to.trace_id().to_bytes());
            id.put(&mut self.bytes);
        }
    }

    /// Says why the span failed.
    pub(crate) fn failure(&mut self, why: &str) {
        self.tag(Tag::Failure);
        self.text(why);
    }

    /// Returns the bytes alone, without how many attributes and links were left out.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds the fields to a span that has none.
    pub(crate) fn expand(&self, span: &mut SpanData) {
        expand(&self.bytes, span);
        let dropped = |count: usize, most: usize| u32::try_from(count.saturating_sub(most)).unwrap_or(u32::MAX);
        span.dropped_attributes_count = dropped(self.attributes, MAX_ATTRIBUTES);
        span.links.dropped_count = dropped(self.links, MAX_LINKS);
    }

    /// Counts one attribute more, and adds the attribute if the span may have it; `value` appends its value.
    fn field(&mut self, tag: Tag, key: &'static str, value: impl FnOnce(&mut Vec<u8>)) {
        self.attributes += 1;
        if self.attributes <= MAX_ATTRIBUTES {
            self.tag(tag);
            WORDS.put(key, &mut self.bytes);
            value(&mut self.bytes);
        }
    }

    fn tag(&mut self, tag: Tag) {
        self.bytes.push(tag as u8);
    }

    fn text(&mut self, text: &str) {
        put_text(&mut self.bytes, text);
    }
}

/// Adds fields to a span that has none. A later attribute of a key replaces the earlier one.
pub(crate) fn expand(bytes: &[u8], span: &mut SpanData) {
    let mut reader = Reader(bytes);
    while let Some(tag) = tag(&mut reader) {
        // Fields end where they were written to; a field that is cut short is left out.
        if read(tag, &mut reader, span).is_none() {
            return;
        }
    }
}

fn read(tag: Tag, reader: &mut Reader<'_>, span: &mut SpanData) -> Option<()> {
    match tag {
        Tag::Subject => {
            let kind = WORDS.read(reader)?;
            let (namespace, name, uid) = (reader.text()?, reader.text()?, reader.text()?);
            let own = canonical(span.span_context.trace_id());
            let uid = if uid.is_empty() { own.as_str() } else { uid };
            let subject = Subject { kind: &kind, namespace, name, uid, generation: reader.signed()? };
            subject::describe(&subject, |key, value| set(span, key.into(), value));
        }
        Tag::Text => {
            let (key, value) = (WORDS.read(reader)?, reader.text()?);
            set(span, key, value.to_owned().into());
        }
        Tag::Word => {
            let (key, value) = (WORDS.read(reader)?, WORDS.read(reader)?);
            set(span, key, Value::String(value.into()));
        }
        Tag::Integer => {
            let key = WORDS.read(reader)?;
            set(span, key, reader.signed()?.into());
        }
        Tag::Float => {
            let key = WORDS.read(reader)?;
            set(span, key, f64::from_le_bytes(reader.array()?).into());
        }
        Tag::Bool => {
            let key = WORDS.read(reader)?;
            let [flag] = reader.array()?;
            set(span, key, (flag > 0).into());
        }
        Tag::Link => {
            let relation = WORDS.read(reader)?;
            let [flags] = reader.array()?;
            let has = |flag: u8| flags & flag != 0;
            let trace = TraceId::from_bytes(reader.array()?);
            let id = Id::read(has(ROOT), trace, reader)?;
            let flags = TraceFlags::default().with_sampled(has(SAMPLED));
            let to = SpanContext::new(trace, id, flags, has(REMOTE), TraceState::NONE);
            links::repeat(&mut span.attributes, &relation, &to);
            let relation = KeyValue::new(RELATION, Value::String(relation.into()));
            span.links.links.push(Link::new(to, vec![relation], 0));
        }
        Tag::Failure => span.status = Status::error(reader.text()?.to_owned()),
    }
    Some(())
}

fn set(span: &mut SpanData, key: Cow<'static, str>, value: Value) {
    match span.attributes.iter_mut().find(|known| known.key.as_str() == key) {
        Some(known) => known.value = value,
        None => span.attributes.push(KeyValue::new(key, value)),
    }
}

fn tag(reader: &mut Reader<'_>) -> Option<Tag> {
    let [tag] = reader.array()?;
    TAGS.get(usize::from(tag)).copied()
}

/// A trace id as RFC 9562 writes a UUID: in lower case, with hyphens.
struct Canonical([u8; 36]);

impl Canonical {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("")
    }
}

fn canonical(trace: TraceId) -> Canonical {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    /// Where the two digits of each byte are.
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or_default();
    let mut text = [b'-'; 36];
    for (byte, place) in trace.to_bytes().into_iter().zip(PLACES) {
        if let Some([high, low]) = text.get_mut(place..place + 2) {
            (*high, *low) = (digit(byte >> 4), digit(byte & 15));
        }
    }
    Canonical(text)
}

#[cfg(test)]
mod tests {
    use super::super::change::Change;
    use super::super::step::Step;
    use super::*;

    #[test]
    fn a_uid_is_written_once_and_read_as_it_was() {
        for (uid, repeated) in [
            ("6d0a3c52-9e1f-4b7a-8c55-0123456789ab", false),
            ("6D0A3C52-9E1F-4B7A-8C55-0123456789AB", true),
            ("6d0a3c529e1f4b7a8c550123456789ab", true),
            ("mirror-7", true),
        ] {
            let subject = Subject { kind: "Pod", namespace: "x", name: "y", uid, generation: 3 };
            let span = subject.step("bind").finish();
            let value = |key: &str| span.attributes.iter().find(|known| known.key.as_str() == key).unwrap();
            assert_eq!(value("k8s.pod.uid").value.as_str(), uid);
            assert_eq!(value("oarlock.object.generation").value, Value::I64(3));
            let mut fields = Fields::new();
            fields.subject(&subject, Change::new(uid, 3).trace());
            let holds = fields.bytes().windows(uid.len()).any(|part| part == uid.as_bytes());
            assert_eq!(holds, repeated, "{uid}");
        }
    }

    #[test]
    fn values_of_every_kind_are_read_as_they_were() {
        let step = Step::of(&Change::new("a", 1), "bind").text("text", "ä").attribute("integer", -7);
        let step = step.attribute("least", i64::MIN).attribute("most", i64::MAX);
        let span = step.attribute("float", -0.5).attribute("bool", true).attribute("text", "later").finish();
        let values: Vec<_> = span.attributes.iter().map(|known| (known.key.as_str(), known.value.clone())).collect();
        let expected = [
            ("text", "later".into()),
            ("integer", (-7).into()),
            ("least", i64::MIN.into()),
            ("most", i64::MAX.into()),
            ("float", (-0.5).into()),
            ("bool", true.into()),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn fields_that_are_cut_short_are_left_out() {
        let mut fields = Fields::new();
        let mut ends = Vec::new();
        fields.attribute_text("key", "value");
        ends.push(fields.bytes().len());
        fields.attribute("number", &Value::I64(1));
        ends.push(fields.bytes().len());
        fields.attribute("share", &Value::F64(0.5));
        ends.push(fields.bytes().len());
        fields.attribute_word("class", "masters");
        ends.push(fields.bytes().len());
        // A link is an attribute too.
        fields.link("change", &Change::new("a", 1).context());
        ends.push(fields.bytes().len());
        let bytes = fields.bytes();
        for end in 0..=bytes.len() {
            let mut span = Step::of(&Change::new("a", 1), "bind").finish();
            expand(&bytes[..end], &mut span);
            let whole = ends.iter().filter(|field| **field <= end).count();
            assert_eq!(span.attributes.len(), whole, "of {end} bytes");
        }
    }

    #[test]
    fn links_to_spans_of_every_kind_are_read_as_they_were() {
        let change = Change::new("a", 1).context();
        let span =
            |id: u64, flags: TraceFlags, remote| SpanContext::new(9.into(), id.into(), flags, remote, TraceState::NONE);
        let targets = [change, span(7, TraceFlags::SAMPLED, false), span(8, TraceFlags::NOT_SAMPLED, true)];
        let step = targets.iter().fold(Step::of(&Change::new("b", 1), "bind"), |step, to| step.linked("cause", to));
        let links = step.finish().links.links;
        assert_eq!(links.iter().map(|link| &link.span_context).collect::<Vec<_>>(), targets.iter().collect::<Vec<_>>());
        assert!(links.iter().all(|link| link.attributes == [KeyValue::new(RELATION, "cause")]));
    }

    #[test]
    fn a_word_and_a_text_are_the_same_value() {
        let step = |kind| Subject { kind, namespace: "", name: "y", uid: "z", generation: 0 }.step("bind");
        let span = step("Gadget").word("word", "masters").text("text", "masters").finish();
        let value = |key: &str| span.attributes.iter().find(|known| known.key.as_str() == key).unwrap().value.clone();
        assert_eq!((value("word"), value("oarlock.object.kind")), (value("text"), "Gadget".into()));
    }
}

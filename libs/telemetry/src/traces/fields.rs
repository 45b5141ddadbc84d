//! The attributes, links and failure of a span in compact form, which takes a fraction of the memory and of the time that OpenTelemetry's own form takes. Each span in the ring has this form; it is
//! expanded when somebody reads the span or when the span is exported.

use opentelemetry::trace::{Link, SpanContext, SpanId, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::trace::SpanData;

use super::bytes::{Reader, put_number, put_text};
use super::change;
use super::limits::{MAX_ATTRIBUTES, MAX_LINKS};
use super::links::{self, RELATION};
use super::subject::{self, Subject};

/// The kind of a field: its first byte.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Tag {
    Subject,
    Text,
    Integer,
    Float,
    Bool,
    Link,
    Failure,
}

const TAGS: [Tag; 7] = [Tag::Subject, Tag::Text, Tag::Integer, Tag::Float, Tag::Bool, Tag::Link, Tag::Failure];

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
        const USUAL: usize = 192;
        Self { bytes: Vec::with_capacity(USUAL), ..Self::default() }
    }

    /// Names the object of the span's life. A UID that is the trace id is not repeated.
    pub(crate) fn subject(&mut self, subject: &Subject<'_>, trace: TraceId) {
        let uid = if change::is_canonical(subject.uid, trace) { "" } else { subject.uid };
        self.tag(Tag::Subject);
        for text in [subject.kind, subject.namespace, subject.name, uid] {
            self.text(text);
        }
        put_number(&mut self.bytes, zigzag(subject.generation));
    }

    /// Adds an attribute with a text.
    pub(crate) fn attribute_text(&mut self, key: &str, value: &str) {
        if self.has_room() {
            self.tag(Tag::Text);
            self.text(key);
            self.text(value);
        }
    }

    /// Adds an attribute. Of arrays, which no span has, nothing is kept.
    pub(crate) fn attribute(&mut self, key: &str, value: &Value) {
        let (tag, number) = match value {
            Value::String(text) => return self.attribute_text(key, text.as_str()),
            Value::I64(number) => (Tag::Integer, zigzag(*number)),
            Value::F64(number) => (Tag::Float, number.to_bits()),
            Value::Bool(flag) => (Tag::Bool, u64::from(*flag)),
            _ => return,
        };
        if self.has_room() {
            self.tag(tag);
            self.text(key);
            put_number(&mut self.bytes, number);
        }
    }

    /// Adds a link to a valid span.
    pub(crate) fn link(&mut self, relation: &str, to: &SpanContext) {
        self.links += 1;
        if self.links <= MAX_LINKS {
            self.tag(Tag::Link);
            self.text(relation);
            self.bytes.extend_from_slice(&to.trace_id().to_bytes());
            self.bytes.extend_from_slice(&to.span_id().to_bytes());
            self.bytes.extend_from_slice(&[to.trace_flags().to_u8(), u8::from(to.is_remote())]);
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

    /// Counts one attribute more, and returns whether the span may have it.
    fn has_room(&mut self) -> bool {
        self.attributes += 1;
        self.attributes <= MAX_ATTRIBUTES
    }

    fn tag(&mut self, tag: Tag) {
        self.bytes.push(tag as u8);
    }

    fn text(&mut self, text: &str) {
        put_text(&mut self.bytes, text);
    }
}

/// Returns a number whose sign is its lowest bit, so that small numbers of both signs take few bytes.
const fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

/// Returns the number of [`zigzag`].
const fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
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
            let (kind, namespace, name, uid) = (reader.text()?, reader.text()?, reader.text()?, reader.text()?);
            let own = canonical(span.span_context.trace_id());
            let uid = if uid.is_empty() { own.as_str() } else { uid };
            let generation = unzigzag(reader.number()?);
            subject::describe(&Subject { kind, namespace, name, uid, generation }, |key, value| set(span, key, value));
        }
        Tag::Text => {
            let (key, value) = (reader.text()?, reader.text()?);
            set(span, key, value.to_owned().into());
        }
        Tag::Integer => {
            let key = reader.text()?;
            set(span, key, unzigzag(reader.number()?).into());
        }
        Tag::Float => {
            let key = reader.text()?;
            set(span, key, f64::from_bits(reader.number()?).into());
        }
        Tag::Bool => {
            let key = reader.text()?;
            set(span, key, (reader.number()? > 0).into());
        }
        Tag::Link => {
            let relation = reader.text()?;
            let (trace, id) = (TraceId::from_bytes(reader.array()?), SpanId::from_bytes(reader.array()?));
            let [flags, remote] = reader.array()?;
            let to = SpanContext::new(trace, id, TraceFlags::new(flags), remote > 0, TraceState::NONE);
            links::repeat(&mut span.attributes, relation, &to);
            span.links.links.push(Link::new(to, vec![KeyValue::new(RELATION, relation.to_owned())], 0));
        }
        Tag::Failure => span.status = Status::error(reader.text()?.to_owned()),
    }
    Some(())
}

fn set(span: &mut SpanData, key: &str, value: Value) {
    match span.attributes.iter_mut().find(|known| known.key.as_str() == key) {
        Some(known) => known.value = value,
        None => span.attributes.push(KeyValue::new(key.to_owned(), value)),
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
        fields.attribute_text("key", "value");
        fields.attribute("number", &Value::I64(1));
        let bytes = fields.bytes();
        for end in 0..bytes.len() {
            let mut span = Step::of(&Change::new("a", 1), "bind").finish();
            expand(&bytes[..end], &mut span);
            assert_eq!(span.attributes.len(), usize::from(end >= 11), "of {end} bytes");
        }
    }
}

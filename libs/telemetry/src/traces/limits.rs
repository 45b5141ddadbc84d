//! What a span holds at most, and what it takes in memory.

use std::borrow::Cow;
use std::mem::size_of;

use opentelemetry::trace::{Link, Status};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::SpanData;

/// The most attributes of a span; further ones are counted and left out.
pub const MAX_ATTRIBUTES: usize = 32;
/// The most links of a span; further ones are counted and left out.
pub const MAX_LINKS: usize = 32;
/// The most bytes of a text in a span; longer texts are cut.
pub const MAX_TEXT: usize = 256;

/// Cuts a text at [`MAX_TEXT`] bytes.
pub(crate) fn cut(text: &str) -> &str {
    if text.len() <= MAX_TEXT { text } else { text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or(text) }
}

/// Cuts the text of an attribute at [`MAX_TEXT`] bytes.
pub(crate) fn cut_attribute(attribute: &mut KeyValue) {
    if let Value::String(text) = &attribute.value
        && text.as_str().len() > MAX_TEXT
    {
        attribute.value = Value::from(cut(text.as_str()).to_owned());
    }
}

/// Estimates the bytes that a span takes in the ring.
pub(crate) fn bytes(span: &SpanData) -> usize {
    /// Reference counts and pointers around a span in the ring, and the allocator's share.
    const AROUND: usize = 64;
    let text = |text: &Cow<'static, str>| if let Cow::Owned(text) = text { text.capacity() } else { 0 };
    let why = if let Status::Error { description } = &span.status { text(description) } else { 0 };
    let values = span.attributes.iter().map(value_bytes).sum::<usize>();
    let events = span.events.iter().map(|event| {
        text(&event.name) + size_of_val(event) + event.attributes.iter().map(attribute_bytes).sum::<usize>()
    });
    let links = span.links.iter().map(|link: &Link| link.attributes.iter().map(attribute_bytes).sum::<usize>());
    AROUND
        + size_of::<SpanData>()
        + text(&span.name)
        + why
        + values
        + span.attributes.capacity() * size_of::<KeyValue>()
        + events.sum::<usize>()
        + span.links.links.capacity() * size_of::<Link>()
        + links.sum::<usize>()
}

fn attribute_bytes(attribute: &KeyValue) -> usize {
    size_of::<KeyValue>() + value_bytes(attribute)
}

/// Estimates the bytes of an attribute's value outside the attribute itself. Whether a text is static is not visible, so each text counts.
fn value_bytes(attribute: &KeyValue) -> usize {
    match &attribute.value {
        Value::String(text) => text.as_str().len(),
        Value::Array(Array::String(texts)) => {
            texts.iter().map(|text| size_of::<StringValue>() + text.as_str().len()).sum()
        }
        Value::Array(_) => MAX_TEXT,
        _ => 0,
    }
}

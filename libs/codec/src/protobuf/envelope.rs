//! The envelope of protobuf messages: the `k8s\0` prefix with `runtime.Unknown`, and the frames of a watch.

use oarlock_meta::GroupVersion;

use super::wire::{Bad, Field, Reader, put_bytes, put_message};
use crate::error::DecodeError;
use crate::json::Peeked;

/// The first four bytes of every protobuf body.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// The content of an opened envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The stated `apiVersion`, may be empty.
    pub api_version: &'a str,
    /// The stated kind, may be empty.
    pub kind: &'a str,
    /// The message.
    pub raw: &'a [u8],
}

impl Envelope<'_> {
    /// Returns group, version and kind.
    ///
    /// # Errors
    /// [`DecodeError::Kind`] when `apiVersion` has two slashes.
    pub fn gvk(&self) -> Result<Peeked, DecodeError> {
        let group_version = GroupVersion::parse(self.api_version).map_err(|e| DecodeError::Kind(e.to_string()))?;
        Ok(Peeked { group_version, kind: self.kind.to_owned() })
    }
}

/// Opens the envelope of a body.
///
/// # Errors
/// [`DecodeError::Kind`] when the prefix is missing or the envelope is malformed.
pub fn open(body: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    if body.is_empty() {
        return Err(DecodeError::Kind("empty data".to_owned()));
    }
    let Some(unknown) = body.strip_prefix(&MAGIC) else {
        let text = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
        return Err(DecodeError::Kind(text.to_owned()));
    };
    if unknown.is_empty() {
        return Err(DecodeError::Kind("empty body".to_owned()));
    }
    read(unknown).map_err(|error| DecodeError::Kind(error.to_string()))
}

fn read(unknown: &[u8]) -> Result<Envelope<'_>, Bad> {
    let mut envelope = Envelope { api_version: "", kind: "", raw: &[] };
    let mut reader = Reader::new(unknown);
    while !reader.is_empty() {
        match reader.field()? {
            (1, Field::Bytes(meta)) => {
                let mut meta = Reader::new(meta);
                while !meta.is_empty() {
                    match meta.field()? {
                        (1, Field::Bytes(text)) => envelope.api_version = std::str::from_utf8(text).unwrap_or(""),
                        (2, Field::Bytes(text)) => envelope.kind = std::str::from_utf8(text).unwrap_or(""),
                        _ => {}
                    }
                }
            }
            (2, Field::Bytes(raw)) => envelope.raw = raw,
            _ => {}
        }
    }
    Ok(envelope)
}

/// Appends an envelope around the bytes that `fill` writes.
pub fn seal(api_version: &str, kind: &str, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&MAGIC);
    put_message(1, out, |out| {
        put_bytes(1, api_version.as_bytes(), out);
        put_bytes(2, kind.as_bytes(), out);
    });
    put_message(2, out, fill);
    // Content encoding and type, which Go writes even when empty.
    put_bytes(3, b"", out);
    put_bytes(4, b"", out);
}

/// Makes a `WatchEvent` message without envelope, around an object with its envelope.
#[must_use]
pub fn watch_event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + 32);
    put_event(kind, object, &mut out);
    out
}

fn put_event(kind: &str, object: &[u8], out: &mut Vec<u8>) {
    put_bytes(1, kind.as_bytes(), out);
    put_message(2, out, |out| put_bytes(1, object, out));
}

/// Makes a frame of a protobuf watch: four bytes of length, most significant first, then the event. `kind` is `ADDED`, `MODIFIED`,
/// `DELETED`, `BOOKMARK` or `ERROR`; `object` has its envelope.
#[must_use]
pub fn watch_frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + 36);
    out.extend_from_slice(&[0; 4]);
    put_event(kind, object, &mut out);
    let len = u32::try_from(out.len() - 4).unwrap_or(u32::MAX).to_be_bytes();
    if let Some(head) = out.first_chunk_mut::<4>() {
        *head = len;
    }
    out
}

//! Encoding of a record in the embedded log: a fixed head, the key, the unchanged value.

use bytes::Bytes;
use oarlock_meta::Revision;

use crate::{Key, Record};

const PUT: u8 = 1;
const DELETE: u8 = 2;
/// Kind (1), length of the resource prefix (2), length of the key (2), predecessor (8); little endian.
const HEAD: usize = 13;

/// Returns the encoded length of a record, in bytes.
pub(super) fn encoded_len(record: &Record) -> usize {
    HEAD + record.key.as_str().len() + record.value.as_ref().map_or(0, Bytes::len)
}

/// Writes a record into `out`, which must be [`encoded_len`] bytes long. `None` for another length, or for a key longer than 65,535 bytes (no valid key is).
pub(super) fn encode(record: &Record, out: &mut [u8]) -> Option<()> {
    let key = record.key.as_str();
    let prefix = u16::try_from(record.key.resource().len()).ok()?.to_le_bytes();
    let length = u16::try_from(key.len()).ok()?.to_le_bytes();
    let prev = record.prev.unwrap_or_default().get().to_le_bytes();
    let (kind, value) = record.value.as_ref().map_or((DELETE, &[][..]), |value| (PUT, value));
    let mut rest = out;
    for part in [&[kind][..], &prefix, &length, &prev, key.as_bytes(), value] {
        let (here, after) = rest.split_at_mut_checked(part.len())?;
        here.copy_from_slice(part);
        rest = after;
    }
    rest.is_empty().then_some(())
}

/// Decodes a record; `None` for invalid bytes.
pub(super) fn decode(revision: Revision, bytes: &[u8]) -> Option<Record> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let number = |from: usize, to: usize| head.get(from..to)?.try_into().ok().map(u16::from_le_bytes).map(usize::from);
    let (prefix, length) = (number(1, 3)?, number(3, 5)?);
    let prev = u64::from_le_bytes(head.get(5..HEAD)?.try_into().ok()?);
    let (key, value) = rest.split_at_checked(length)?;
    let key = Key::from_parts(std::str::from_utf8(key).ok()?, prefix)?;
    let prev = (prev > 0).then_some(Revision(prev));
    let value = match *head.first()? {
        PUT => Some(Bytes::copy_from_slice(value)),
        DELETE if value.is_empty() => None,
        _ => return None,
    };
    Some(Record { revision, key, prev, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(value: Option<&'static str>) -> Record {
        let key = Key::namespaced("/registry/pods/", "default", "web-1");
        Record { revision: Revision(9), key, prev: Some(Revision(7)), value: value.map(Bytes::from) }
    }

    #[test]
    fn reads_what_it_writes() {
        for record in [record(Some("{}")), record(Some("")), record(None), Record { prev: None, ..record(None) }] {
            let mut bytes = vec![0; encoded_len(&record)];
            encode(&record, &mut bytes).unwrap();
            assert_eq!(decode(record.revision, &bytes), Some(record));
        }
    }

    #[test]
    fn damaged_records_are_refused_or_written_as_they_were_read() {
        let record = record(Some("{}"));
        let mut whole = vec![0; encoded_len(&record)];
        encode(&record, &mut whole).unwrap();
        let mut read = 0;
        for bytes in oarlock_testkit::damaged(1, &whole, 3000) {
            let Some(record) = decode(record.revision, &bytes) else { continue };
            read += 1;
            let mut again = vec![0; encoded_len(&record)];
            encode(&record, &mut again).unwrap();
            assert_eq!(again, bytes);
        }
        assert!(read > 100, "only {read} were still readable");
    }

    #[test]
    fn refuses_every_truncation_of_the_head_and_the_key() {
        let record = record(None);
        let mut bytes = vec![0; encoded_len(&record)];
        encode(&record, &mut bytes).unwrap();
        for len in 0..bytes.len() {
            assert_eq!(decode(record.revision, &bytes[..len]), None, "length {len}");
        }
        bytes[0] = 9;
        assert_eq!(decode(record.revision, &bytes), None);
    }
}

//! Ids of spans in the bytes of a span. Roots of changes and of requests have ids that are derived from their trace, so a number is enough for them.

use opentelemetry::trace::{SpanId, TraceId};

use super::bytes::Reader;
use super::change;

/// The first generations, whose roots are written by number. Later changes of an object are rare.
const GENERATIONS: u8 = 8;

/// The id of a span of a known trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    /// The root of the change that led to a generation.
    Root(u8),
    /// Any other span.
    Other(SpanId),
}

impl Id {
    pub(super) fn of(trace: TraceId, span: SpanId) -> Self {
        let roots = change::roots(trace);
        (0..GENERATIONS).find(|generation| roots(i64::from(*generation)) == span).map_or(Self::Other(span), Self::Root)
    }

    /// Whether the id is that of a root, which [`Id::read`] must know.
    pub(super) const fn is_root(self) -> bool {
        matches!(self, Self::Root(_))
    }

    /// Appends the id.
    pub(super) fn put(self, to: &mut Vec<u8>) {
        match self {
            Self::Root(generation) => to.push(generation),
            Self::Other(span) => to.extend_from_slice(&span.to_bytes()),
        }
    }

    /// Reads the id of a span.
    pub(super) fn read(is_root: bool, trace: TraceId, reader: &mut Reader<'_>) -> Option<SpanId> {
        if !is_root {
            return Some(SpanId::from_bytes(reader.array()?));
        }
        let [generation] = reader.array()?;
        Some(change::roots(trace)(generation.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::Change;
    use super::*;

    #[test]
    fn ids_are_read_as_they_were_written_and_those_of_roots_are_short() {
        let root = |uid: &str, generation| Change::new(uid, generation).context().span_id();
        let (uid, other) = ("6d0a3c52-9e1f-4b7a-8c55-0123456789ab", "6d0a3c52-9e1f-4b7a-8c55-0123456789ac");
        let trace = Change::new(uid, 1).trace();
        let spans =
            [root(uid, 0), root(uid, 7), root(uid, 8), root(uid, -1), root(other, 1), SpanId::INVALID, 7.into()];
        for (span, length) in spans.into_iter().zip([1, 1, 8, 8, 8, 8, 8]) {
            let (id, mut bytes) = (Id::of(trace, span), Vec::new());
            id.put(&mut bytes);
            assert_eq!(bytes.len(), length, "{span}");
            let mut reader = Reader(&bytes);
            assert_eq!((Id::read(id.is_root(), trace, &mut reader), reader.0.len()), (Some(span), 0));
            assert_eq!(Id::read(id.is_root(), trace, &mut Reader(&bytes[1..])), None, "{span} cut short");
        }
    }
}

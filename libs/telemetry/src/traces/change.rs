//! The ids of an object's life, derived from the object.
//!
//! Each part of the control plane computes the same ids from an object that it reads, so no id is stored with the object. The functions must give the same ids in all versions,
//! because parts of several versions contribute to one trace.

use oarlock_seeded_bug::seeded_bug;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

use super::ratio::Ratio;

/// One change of an object's spec (its creation is the first): the root of the spans that bring the change about, in the trace of the object's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    trace: TraceId,
    root: SpanId,
}

impl Change {
    /// Derives the ids of a change from `metadata.uid` and `metadata.generation` of the object that it led to. The creation of an object whose kind has no generations counts as
    /// generation 0.
    ///
    /// A UID that is a UUID, with or without hyphens, *is* the trace id, so a user finds the trace of an object by its UID. Any other text is hashed. Without a UID the ids are invalid, and no
    /// step of the change is recorded.
    #[must_use]
    pub fn new(uid: &str, generation: i64) -> Self {
        let trace = if uid.is_empty() { 0 } else { uuid(uid).unwrap_or_else(|| hash(uid.as_bytes())) };
        let bits = [(trace >> 64) as u64, trace as u64, generation.cast_unsigned()];
        let root = bits.into_iter().fold(0, |state, word| mix(state ^ word));
        Self { trace: TraceId::from(trace), root: SpanId::from(root.max(1)) }
    }

    /// Returns the trace of the object's life.
    #[must_use]
    pub const fn trace(&self) -> TraceId {
        self.trace
    }

    /// Returns the context of the change's root, as parent of a span or as the target of a link. It is sampled if the process's ratio samples the life; every process with the same ratio decides
    /// alike.
    #[must_use]
    pub fn context(&self) -> SpanContext {
        self.sampled(super::ratio())
    }

    /// Returns the context of the change's root at a given ratio.
    #[must_use]
    pub fn sampled(&self, ratio: Ratio) -> SpanContext {
        let by_change = || u64::from_be_bytes(self.root.to_bytes());
        let deciding = if seeded_bug!("life_sampled_by_half") { u128::from(by_change()).into() } else { self.trace };
        let flags = TraceFlags::default().with_sampled(ratio.samples(deciding));
        SpanContext::new(self.trace, self.root, flags, false, TraceState::NONE)
    }
}

/// What [`digit`] returns of a byte that is no digit.
const NO_DIGIT: u8 = 0xff;

/// Returns the value of a hexadecimal digit.
const fn digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => NO_DIGIT,
    }
}

/// Reads 32 hexadecimal digits, with hyphens where RFC 9562 has them or without any. Every step of a life does, so the digits are checked once, at the end.
fn uuid(text: &str) -> Option<u128> {
    let groups: [&str; 5] = match text.len() {
        32 => [text, "", "", "", ""],
        36 => {
            let hyphens = [8, 13, 18, 23].map(|place| text.as_bytes().get(place) == Some(&b'-'));
            if hyphens != [true; 4] {
                return None;
            }
            [text.get(..8)?, text.get(9..13)?, text.get(14..18)?, text.get(19..23)?, text.get(24..)?]
        }
        _ => return None,
    };
    let (mut id, mut all) = (0, 0);
    for group in groups {
        // Up to 16 digits at a time in a `u64`: shifts of 128 bits cost several times as much.
        for digits in group.as_bytes().chunks(16) {
            let mut part = 0_u64;
            for byte in digits {
                let value = digit(*byte);
                all |= value;
                part = part << 4 | u64::from(value & 0xf);
            }
            id = id << (4 * digits.len()) | u128::from(part);
        }
    }
    (all < 16).then_some(id)
}

/// FNV-1a of 128 bits, with a final mix of each half, because the sampler reads the low bits alone.
fn hash(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash = bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    let (high, low) = ((hash >> 64) as u64, hash as u64);
    u128::from(mix(high)) << 64 | u128::from(mix(low ^ high))
}

/// The output function of SplitMix64: every bit of the input changes about half of the output's bits.
const fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const UID: &str = "6d0a3c52-9e1f-4b7a-8c55-0123456789ab";

    fn root(uid: &str, generation: i64) -> SpanId {
        Change::new(uid, generation).context().span_id()
    }

    #[test]
    fn the_trace_of_a_uuid_is_the_uuid() {
        let change = Change::new(UID, 1);
        assert_eq!(change.trace().to_string(), UID.replace('-', ""));
        assert_eq!(Change::new(&UID.replace('-', ""), 1), change);
        assert_eq!(Change::new(&UID.to_uppercase(), 1), change);
    }

    #[test]
    fn ids_are_the_same_in_every_version() {
        // Parts of several versions contribute to one trace: these numbers never change.
        assert_eq!(root(UID, 1).to_string(), "c74e783a1e3e1520");
        assert_eq!(root(UID, 2).to_string(), "1f9dce4ff956e9e4");
        assert_eq!(Change::new("mirror-7", 1).trace().to_string(), "17e0f47c43942bdff059d247884e0e8b");
    }

    #[test]
    fn an_object_without_a_uid_has_no_life() {
        for uid in ["", "00000000-0000-0000-0000-000000000000"] {
            assert!(!Change::new(uid, 1).context().is_valid(), "{uid:?}");
        }
    }

    #[test]
    fn other_texts_are_hashed() {
        let texts = [
            "a",
            "b",
            "6d0a3c52+9e1f-4b7a-8c55-0123456789ab",
            "6d0a3c529-e1f-4b7a-8c55-0123456789ab",
            "Ä",
            &"g".repeat(32),
        ];
        let traces: HashSet<_> = texts.iter().map(|text| Change::new(text, 1).trace()).collect();
        assert_eq!(traces.len(), texts.len());
    }

    #[test]
    fn changes_of_many_lives_have_roots_of_their_own() {
        let uids = (1..=300_u128).map(|n| format!("{n:032x}"));
        let roots: HashSet<_> = uids.flat_map(|uid| (0..100).map(move |generation| root(&uid, generation))).collect();
        assert_eq!(roots.len(), 30_000);
    }

    #[test]
    fn a_life_is_sampled_by_its_id_alone() {
        let ratio = Ratio::per_million(10_000).unwrap();
        let sampled = |uid: &str| {
            let decisions = (1..5).map(|generation| Change::new(uid, generation).sampled(ratio).is_sampled());
            decisions.collect::<HashSet<_>>()
        };
        // Hashed, and by ids whose first bits are those of a random UUID (version 4).
        let hashed = (0..100_000).map(|n| format!("object {n}"));
        let uuids = (0..100_000_u64).map(|n| {
            let id = u128::from(mix(n)) << 64 | u128::from(mix(n ^ 0xabcd));
            format!("{:032x}", id & !(0xf << 76 | 0b11 << 62) | 4 << 76 | 0b10 << 62)
        });
        for uids in [hashed.collect::<Vec<_>>(), uuids.collect()] {
            let decisions: Vec<_> = uids.iter().map(|uid| sampled(uid)).collect();
            assert!(decisions.iter().all(|decisions| decisions.len() == 1));
            let chosen = decisions.iter().filter(|decisions| decisions.contains(&true)).count();
            assert!((850..1150).contains(&chosen), "{chosen} of 100,000 at 1 %");
        }
    }
}

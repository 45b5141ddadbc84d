//! The ids of an object's life, derived from the object.
//!
//! Each part of the control plane computes the same ids from an object that it reads, so no id is stored with the object. The functions must give the same ids in all versions,
//! because parts of several versions contribute to one trace.

use std::ops::Range;
use std::time::{Duration, SystemTime};

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
        let trace = TraceId::from(trace);
        Self { trace, root: roots(trace)(generation) }
    }

    /// Returns when the object of a life was created, if the life's span is the root of the creation and the UID says it: a UUID of version 7 with 12 bits of the millisecond's fraction, as
    /// the API server makes them, exact to 250 ns. Another UID that has these bits by chance gives any time.
    pub(super) fn created(trace: TraceId, span: SpanId) -> Option<SystemTime> {
        let id = u128::from_be_bytes(trace.to_bytes());
        let is_creation = [0, 1].map(roots(trace)).contains(&span);
        if id >> 76 & 0xf != 7 || !is_creation {
            return None;
        }
        let nanos = ((id >> 64 & 0xfff) * 1_000_000) >> 12;
        let since = Duration::from_millis(u64::try_from(id >> 80).ok()?) + Duration::from_nanos(nanos as u64);
        SystemTime::UNIX_EPOCH.checked_add(since)
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

/// Returns the ids of the roots of a trace, by the generation of the object. A request that begins a trace of its own has the root of generation 0.
pub(super) fn roots(trace: TraceId) -> impl Fn(i64) -> SpanId {
    let trace = u128::from_be_bytes(trace.to_bytes());
    let of_trace = mix(mix((trace >> 64) as u64) ^ trace as u64);
    move |generation| SpanId::from(mix(of_trace ^ generation.cast_unsigned()).max(1))
}

/// Whether a text is a trace id as RFC 9562 writes a UUID: in lower case, with hyphens.
pub(super) fn is_canonical(text: &str, trace: TraceId) -> bool {
    text.len() == 36
        && uuid(text).map(TraceId::from) == Some(trace)
        && !text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Reads 32 hexadecimal digits, with hyphens where RFC 9562 has them or without any.
fn uuid(text: &str) -> Option<u128> {
    /// Where the groups of digits are, with and without hyphens before them.
    const GROUPS: [(Range<usize>, Range<usize>); 5] =
        [(0..8, 0..8), (9..13, 8..12), (14..18, 12..16), (19..23, 16..20), (24..36, 20..32)];
    let mut digits = [0_u8; 32];
    match text.len() {
        32 => digits.copy_from_slice(text.as_bytes()),
        36 => {
            let text: &[u8; 36] = text.as_bytes().try_into().ok()?;
            if [8, 13, 18, 23].map(|place| text.get(place)) != [Some(&b'-'); 4] {
                return None;
            }
            for (from, to) in GROUPS {
                digits.get_mut(to)?.copy_from_slice(text.get(from)?);
            }
        }
        _ => return None,
    }
    let (eights, _) = digits.as_chunks::<8>();
    eights.iter().try_fold(0, |id, eight| Some(id << 32 | u128::from(hexadecimal(*eight)?)))
}

/// Reads eight hexadecimal digits at once, since every step of a life reads a UID.
const fn hexadecimal(digits: [u8; 8]) -> Option<u32> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let text = u64::from_be_bytes(digits);
    let letters = text & (0x40 * ONES);
    // The low half of a letter counts from 1, and stands for 10.
    let values = (text & (0x0f * ONES)) + (letters >> 6) * 9;
    let written = values + 0x30 * ONES + ((values + 6 * ONES) >> 4 & ONES) * 0x27;
    if values & (0xf0 * ONES) != 0 || written != text | letters >> 1 {
        return None;
    }
    let pairs = (values | values >> 4) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    Some((fours | fours >> 16) as u32)
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

    fn root_of(uid: &str, generation: i64) -> SpanId {
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
        assert_eq!(root_of(UID, 1).to_string(), "c74e783a1e3e1520");
        assert_eq!(root_of(UID, 2).to_string(), "1f9dce4ff956e9e4");
        assert_eq!(Change::new("mirror-7", 1).trace().to_string(), "17e0f47c43942bdff059d247884e0e8b");
    }

    #[test]
    fn eight_digits_are_read_as_one_by_one() {
        for place in 0..8 {
            for byte in 0..=u8::MAX {
                let mut digits = *b"0123abcF";
                digits[place] = byte;
                let valid = digits.iter().all(u8::is_ascii_hexdigit);
                let expected = valid.then(|| u32::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap());
                assert_eq!(hexadecimal(digits), expected, "{digits:?}");
            }
        }
    }

    #[test]
    fn an_object_without_a_uid_has_no_life() {
        for uid in ["", "00000000-0000-0000-0000-000000000000"] {
            assert!(!Change::new(uid, 1).context().is_valid(), "{uid:?}");
        }
    }

    #[test]
    fn a_uid_of_version_seven_says_when_its_object_was_created() {
        let created = |uid: &str, generation: i64| {
            let change = Change::new(uid, generation);
            let at = Change::created(change.trace(), change.context().span_id())?;
            Some(at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos())
        };
        // Half a millisecond after the first one.
        let uid = "0192d3a0-0001-7800-8c55-0123456789ab";
        let expected = Some(0x0192_d3a0_0001 * 1_000_000 + 500_000);
        assert_eq!([created(uid, 0), created(uid, 1), created(uid, 2)], [expected, expected, None]);
        assert_eq!(created(UID, 1), None, "version 4");
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
        let roots: HashSet<_> =
            uids.flat_map(|uid| (0..100).map(move |generation| root_of(&uid, generation))).collect();
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

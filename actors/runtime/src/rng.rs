//! Randomness. The project draws random numbers only through this module.
//!
//! In production every bit comes from the operating system (`getrandom`); small draws go through a buffer per thread, secrets do not. In a
//! [`Universe`](crate::Universe) the thread's generator is seeded, so a run can be replayed. A process that cannot get randomness aborts, because it
//! must not issue tokens or uids.

use std::cell::RefCell;
use std::time::Duration;

use uuid::Uuid;

const BUFFER: usize = 512;
const NANOS_IN_MILLI: u128 = 1_000_000;

thread_local! {
    static LOCAL: RefCell<Rng> = const { RefCell::new(Rng::system()) };
}

/// A random generator: the operating system's, or a seeded one whose draws depend on the seed alone.
#[derive(Clone, Debug)]
pub struct Rng {
    source: Source,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per thread, and a const constructor cannot box")]
enum Source {
    System {
        buffer: [u8; BUFFER],
        used: usize,
    },
    /// SplitMix64 (Steele, Lea, Flood 2014): passes BigCrush, and its whole state is one word.
    Seeded(u64),
}

impl Rng {
    /// Creates the operating system's generator with a buffer of 512 bytes.
    pub const fn system() -> Self {
        Self { source: Source::System { buffer: [0; BUFFER], used: BUFFER } }
    }

    /// Creates a generator whose draws depend on `seed` alone.
    pub const fn seeded(seed: u64) -> Self {
        Self { source: Source::Seeded(seed) }
    }

    /// Draws 64 random bits.
    pub fn u64(&mut self) -> u64 {
        match &mut self.source {
            Source::Seeded(state) => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = *state;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                z ^ (z >> 31)
            }
            Source::System { buffer, used } => {
                if *used + 8 > BUFFER {
                    from_system(buffer);
                    *used = 0;
                }
                let word = buffer.iter().skip(*used).take(8).fold(0, |word, byte| word << 8 | u64::from(*byte));
                *used += 8;
                word
            }
        }
    }

    /// Draws a number below `bound`, each equally likely; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiply and shift (Lemire 2019), rejecting the few values that would favour small results.
        let threshold = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        loop {
            let wide = u128::from(self.u64()) * u128::from(bound);
            if wide as u64 >= threshold {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Returns true with probability `numerator / denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Fills `bytes`. The system's generator bypasses its buffer here, so the bytes are fit for keys and tokens.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        match self.source {
            Source::System { .. } => from_system(bytes),
            Source::Seeded(_) => {
                for chunk in bytes.chunks_mut(8) {
                    let word = self.u64().to_le_bytes();
                    chunk.iter_mut().zip(word).for_each(|(to, from)| *to = from);
                }
            }
        }
    }

    /// Draws a random (version 4) UUID.
    pub fn uuid(&mut self) -> Uuid {
        let (high, low) = (self.u64(), self.u64());
        uuid::Builder::from_random_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes()).into_uuid()
    }

    /// Shortens `duration` by up to `percent` percent, so that timers set together do not fire together.
    pub fn jitter(&mut self, duration: Duration, percent: u32) -> Duration {
        let span = duration.as_nanos().saturating_mul(u128::from(percent.min(100))) / 100;
        let span = u64::try_from(span).unwrap_or(u64::MAX);
        duration.saturating_sub(Duration::from_nanos(self.below(span.saturating_add(1))))
    }

    /// Picks one of `items`, each equally likely; `None` when `items` is empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(usize::try_from(self.below(items.len() as u64)).ok()?)
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }

    /// Returns a new generator, seeded by a draw from this one; a fork of the system's generator is the system's again.
    pub fn fork(&mut self) -> Self {
        match self.source {
            Source::System { .. } => Self::system(),
            Source::Seeded(_) => Self::seeded(self.u64()),
        }
    }

    /// Makes this the generator of the current thread; returns the previous one.
    pub fn install(self) -> Self {
        LOCAL.replace(self)
    }
}

fn from_system(bytes: &mut [u8]) {
    if let Err(error) = getrandom::fill(bytes) {
        tracing::error!(%error, "the system gives no randomness; aborting");
        std::process::abort();
    }
}

/// Uses the current thread's generator.
pub fn with<T>(draw: impl FnOnce(&mut Rng) -> T) -> T {
    LOCAL.with_borrow_mut(draw)
}

/// Draws 64 random bits from the current thread's generator.
pub fn u64() -> u64 {
    with(Rng::u64)
}

/// Draws a number below `bound` from the current thread's generator; 0 when `bound` is 0.
pub fn below(bound: u64) -> u64 {
    with(|rng| rng.below(bound))
}

/// Fills `bytes` from the current thread's generator; fit for keys and tokens outside a universe.
pub fn fill(bytes: &mut [u8]) {
    with(|rng| rng.fill(bytes));
}

/// Draws a random (version 4) UUID from the current thread's generator.
pub fn uuid() -> Uuid {
    with(Rng::uuid)
}

/// Makes the UID of an object that is created now: a UUID of version 7 (RFC 9562) with 12 bits of the millisecond's fraction, so that whoever has the object knows its creation to a
/// quarter of a microsecond (`metadata.creationTimestamp` has whole seconds). Its other 62 bits are random.
pub fn uid() -> Uuid {
    let nanos = u128::try_from(super::clock::wall().as_nanosecond()).unwrap_or(0);
    let (millis, rest) = (nanos / NANOS_IN_MILLI, nanos % NANOS_IN_MILLI);
    // The lower half of a version 4 UUID is that of a version 7 one.
    let random = uuid().as_u128() & u128::from(u64::MAX);
    let fraction = (rest << 12) / NANOS_IN_MILLI;
    Uuid::from_u128(millis << 80 | 7 << 76 | fraction << 64 | random)
}

/// Shortens `duration` by up to `percent` percent, with the current thread's generator.
pub fn jitter(duration: Duration, percent: u32) -> Duration {
    with(|rng| rng.jitter(duration, percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_draw_equally_and_different_seeds_do_not() {
        let draw = |seed| {
            let mut rng = Rng::seeded(seed);
            let mut bytes = [0; 13];
            rng.fill(&mut bytes);
            (rng.u64(), rng.below(1000), rng.uuid(), bytes)
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn below_reaches_every_value_and_no_other() {
        let mut rng = Rng::seeded(3);
        let mut seen = [0; 7];
        (0..700).for_each(|_| seen[rng.below(7) as usize] += 1);
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn system_draws_do_not_repeat_across_buffers() {
        let mut rng = Rng::system();
        let draws: std::collections::BTreeSet<u64> = (0..1000).map(|_| rng.u64()).collect();
        assert_eq!(draws.len(), 1000);
    }

    #[test]
    fn uuids_are_version_four() {
        assert_eq!(uuid().get_version_num(), 4);
        assert_ne!(uuid(), uuid());
    }

    #[tokio::test(start_paused = true)]
    async fn uids_hold_the_time_to_a_quarter_of_a_microsecond() {
        let wall = jiff::Timestamp::new(1_700_000_000, 123_456_789).unwrap();
        let before = super::super::clock::Clock::starting_at(wall).install();
        let uid = uid();
        before.install();
        assert_eq!((uid.get_version_num(), uid.get_variant()), (7, uuid::Variant::RFC4122));
        let id = uid.as_u128();
        let nanos = (id >> 80) * 1_000_000 + (id >> 64 & 0xfff) * 1_000_000 / 4096;
        let late = u128::try_from(wall.as_nanosecond()).unwrap() - nanos;
        assert!(late < 250, "{late} ns");
        assert_ne!(super::uid(), super::uid());
    }

    #[test]
    fn jitter_only_shortens_and_stays_in_range() {
        let mut rng = Rng::seeded(5);
        for _ in 0..100 {
            let d = rng.jitter(Duration::from_secs(10), 20);
            assert!(d <= Duration::from_secs(10) && d >= Duration::from_secs(8), "{d:?}");
        }
    }

    #[test]
    fn shuffle_keeps_the_items() {
        let mut items: Vec<u32> = (0..20).collect();
        Rng::seeded(9).shuffle(&mut items);
        assert_ne!(items, (0..20).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..20).collect::<Vec<_>>());
    }
}

//! A seeded random generator for faults (SplitMix64): a failing seed can be replayed.

/// Random generator that depends on its seed alone.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`; 0 when `bound` is 0. (The bias of the remainder does not matter to faults.)
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits().checked_rem(bound).unwrap_or(0)
    }

    /// Returns true in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }
}

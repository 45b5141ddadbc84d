//! Damaged input, which a decoder must refuse or decode without a panic.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Byte sequences with a meaning for decoders.
const FRAGMENTS: [&[u8]; 32] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b"\\u",
    b"\\ud800",
    b"null",
    b"-",
    b"1e999",
    b"0.5",
    b"99999999999999999999",
    b",",
    b":",
    b"\xff",
    b"\xe2\x80\xa8",
    b"\0",
    b"true",
    b"\n",
    b"&a ",
    b"*a",
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
    b"/",
    b"/../",
    b"%2f",
    b"%c0%af",
    b"~1",
    b"=",
    b"-----END",
    b"$patch",
];

/// Returns `count` damaged copies of an input; the same seed gives the same copies.
pub fn damaged(seed: u64, whole: &[u8], count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..count).map(move |_| damage(&mut rng, whole))
}

/// As [`damaged`], for text decoders: invalid UTF-8 is replaced.
pub fn damaged_text(seed: u64, whole: &str, count: usize) -> impl Iterator<Item = String> {
    damaged(seed, whole.as_bytes(), count).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Changes, removes or doubles some bytes, or replaces them by fragments with a meaning for decoders.
fn damage(rng: &mut StdRng, whole: &[u8]) -> Vec<u8> {
    let mut out = whole.to_vec();
    for _ in 0..rng.random_range(1..5) {
        let at = rng.random_range(0..=out.len());
        let to = (at + rng.random_range(0..12)).min(out.len());
        match rng.random_range(0..6) {
            0 => drop(out.drain(at..to)),
            1 => {
                let copy = out[at..to].to_vec();
                out.splice(at..at, copy);
            }
            2 => out.truncate(at),
            3 if at < out.len() => out[at] = rng.random(),
            4 if at < out.len() => out[at] ^= 1 << rng.random_range(0..8),
            _ => {
                let fragment = FRAGMENTS[rng.random_range(0..FRAGMENTS.len())];
                out.splice(at..at, fragment.iter().copied());
            }
        }
    }
    out
}

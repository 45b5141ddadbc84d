//! Searches for bytes in text, eight bytes at a time.
//!
//! The functions on words return a word that has the high bit of each byte that is sought. Bits above the lowest one that is right may be wrong (a borrow
//! propagates upwards), which does not affect a search for the first byte.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Finds the bytes that equal `byte`.
#[inline]
pub(super) const fn equal(word: u64, byte: u8) -> u64 {
    let differences = word ^ (ONES * byte as u64);
    differences.wrapping_sub(ONES) & !differences & HIGH
}

/// Finds the bytes that equal `byte` or differ from it in the bit `but` only; `byte` has this bit.
#[inline]
pub(super) const fn equal_but(word: u64, byte: u8, but: u8) -> u64 {
    equal(word | (ONES * but as u64), byte)
}

/// Finds the bytes below `bound`, which is at most 0x80.
#[inline]
pub(super) const fn below(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(ONES * bound as u64) & !word & HIGH
}

/// Returns the index of the byte that a word of sought bytes marks first; 8 for a word without any.
#[inline]
pub(super) const fn first(found: u64) -> usize {
    (found.trailing_zeros() / 8) as usize
}

/// Returns the index of the first byte that is sought. `find` and `is_sought` must agree.
#[inline]
pub(super) fn position(bytes: &[u8], find: impl Fn(u64) -> u64, is_sought: impl Fn(u8) -> bool) -> Option<usize> {
    let mut rest = bytes;
    while let Some((word, tail)) = rest.split_first_chunk::<8>() {
        let found = find(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(bytes.len() - rest.len() + first(found));
        }
        rest = tail;
    }
    match bytes.last_chunk::<8>() {
        // The last word overlaps bytes that are not sought.
        Some(word) if !rest.is_empty() => {
            let found = find(u64::from_le_bytes(*word));
            (found != 0).then(|| bytes.len() - 8 + first(found))
        }
        _ => rest.iter().position(|byte| is_sought(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_byte_in_a_text_of_any_length() {
        let find = |word| equal(word, b'\\') | equal_but(word, b'>', 2) | below(word, 0x20);
        let is_sought = |byte| byte < 0x20 || matches!(byte, b'\\' | b'<' | b'>');
        for length in 0..40 {
            for filler in [b'a', 0x20, 0x5b, 0x5d, 0x3d, 0x3f, 0x7f, 0x80, 0x9f, 0xff] {
                let mut bytes = vec![filler; length];
                assert_eq!(position(&bytes, find, is_sought), None, "{filler:#x}");
                for at in (0..length).rev() {
                    for byte in 0..=255_u8 {
                        let before = bytes[at];
                        bytes[at] = byte;
                        let wanted = bytes.iter().position(|byte| is_sought(*byte));
                        assert_eq!(position(&bytes, find, is_sought), wanted, "{byte:#x} at {at} in {filler:#x}");
                        bytes[at] = before;
                    }
                    bytes[at] = b'\\';
                }
            }
        }
    }
}

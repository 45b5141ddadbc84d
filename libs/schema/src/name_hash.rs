//! The hash of field names, by which a type finds its fields (`TypeDef::by_hash`): the build script fills the tables, lookups read them.

/// Returns the hash of a field name: of its length and of its first and last eight bytes, which tell nearly all names of one type apart.
#[inline]
pub(crate) fn hash(name: &str) -> usize {
    let bytes = name.as_bytes();
    let ends = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => spread(u64::from_le_bytes(*first)) ^ u64::from_le_bytes(*last),
        _ => match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
            }
            _ => bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        },
    };
    (spread(ends ^ bytes.len() as u64) >> 48) as usize
}

/// Multiplies by an odd number without a pattern, so that the upper bits depend on all bits of the word.
const fn spread(word: u64) -> u64 {
    word.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

//! Base64 with the behaviour of Go's standard encoding: line breaks are skipped, errors name the offending byte.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const INVALID: u8 = 0xff;

const VALUES: [u8; 256] = {
    let mut table = [INVALID; 256];
    let mut i = 0;
    while i < 64 {
        #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
        {
            table[ALPHABET[i] as usize] = i as u8;
        }
        i += 1;
    }
    table
};

fn value(byte: u8) -> u8 {
    VALUES.get(usize::from(byte)).copied().unwrap_or(INVALID)
}

/// Decodes Base64.
///
/// # Errors
/// The index of the first invalid byte.
pub(crate) fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let mut bits = 0_u32;
    let mut have = 0_u32;
    let mut at = 0;
    while let Some(byte) = text.get(at).copied() {
        at += 1;
        match byte {
            b'\r' | b'\n' => {}
            b'=' => return padding(text, at, have, bits, out),
            _ => {
                let v = value(byte);
                if v == INVALID {
                    return Err(at - 1);
                }
                bits = bits << 6 | u32::from(v);
                have += 1;
                if have == 4 {
                    let [_, first, second, third] = bits.to_be_bytes();
                    out.extend_from_slice(&[first, second, third]);
                    (bits, have) = (0, 0);
                }
            }
        }
    }
    // Go reports the start of the incomplete quantum at the end.
    if have == 0 { Ok(out) } else { Err(at - have as usize) }
}

/// Finishes decoding after the first `=` at `at - 1`.
fn padding(text: &[u8], mut at: usize, have: u32, bits: u32, mut out: Vec<u8>) -> Result<Vec<u8>, usize> {
    let skip = |mut at: usize| {
        while matches!(text.get(at), Some(b'\r' | b'\n')) {
            at += 1;
        }
        at
    };
    match have {
        2 => {
            at = skip(at);
            match text.get(at) {
                None => return Err(text.len()),
                Some(b'=') => at += 1,
                // Go reports the first padding byte.
                Some(_) => return Err(at - 1),
            }
            out.push((bits >> 4) as u8);
        }
        3 => out.extend_from_slice(&[(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => return Err(at - 1),
    }
    at = skip(at);
    if at < text.len() { Err(at) } else { Ok(out) }
}

/// Encodes bytes as Base64 with padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4_usize {
            let index = (bits >> (18 - 6 * place)) as usize & 63;
            let letter = ALPHABET.get(index).copied().unwrap_or(b'=');
            out.push(if place > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    out
}

/// Whether `text` is the output of [`encode`] for some bytes, the common case, checked without decoding.
pub(crate) fn is_canonical(text: &[u8]) -> bool {
    if !text.len().is_multiple_of(4) {
        return false;
    }
    let body = match text {
        [rest @ .., last, b'=', b'='] if value(*last) & 0x0f == 0 && value(*last) != INVALID => {
            return rest.iter().all(|b| value(*b) != INVALID);
        }
        [rest @ .., last, b'='] if value(*last) & 0x03 == 0 && value(*last) != INVALID => rest,
        all => all,
    };
    body.iter().all(|b| value(*b) != INVALID)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, is_canonical};

    #[test]
    fn round_trips_every_length() {
        for len in 0..20_u8 {
            let bytes: Vec<u8> = (0..len).map(|i| i.wrapping_mul(37).wrapping_add(200)).collect();
            let text = encode(&bytes);
            assert!(is_canonical(text.as_bytes()), "{text}");
            assert_eq!(decode(text.as_bytes()), Ok(bytes));
        }
    }

    #[test]
    fn names_the_byte_that_go_names() {
        for (text, at) in
            [("!!", 0), ("ab!d", 2), ("YQ=", 3), ("YQ==x", 4), ("abc", 0), ("YWJjYQ", 4), ("Y===", 1), ("YQ=a", 2)]
        {
            assert_eq!(decode(text.as_bytes()), Err(at), "{text}");
            assert!(!is_canonical(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn line_breaks_and_loose_bits_are_read_but_not_canonical() {
        assert_eq!(decode(b"YWJj\nYWJj"), Ok(b"abcabc".to_vec()));
        assert_eq!(decode(b"YR=="), Ok(b"a".to_vec()));
        assert!(!is_canonical(b"YR=="));
        assert!(!is_canonical(b"YWJj\n"));
    }
}

//! Numbers and texts in the bytes of a span.

use super::limits;

/// Appends a number: seven bits in each byte, the lowest first, and a bit that says whether more follow.
pub(super) fn put_number(to: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends a number of any sign, whose sign becomes the lowest bit, so that small numbers of both signs take few bytes.
pub(super) fn put_signed(to: &mut Vec<u8>, number: i64) {
    put_number(to, (number << 1 ^ number >> 63).cast_unsigned());
}

/// Appends a text with its length, cut at [`limits::MAX_TEXT`] bytes.
pub(super) fn put_text(to: &mut Vec<u8>, text: &str) {
    let text = limits::cut(text);
    put_number(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

/// Bytes that are still to be read.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// Reads so many bytes.
    pub(super) fn array<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    /// Reads a number.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Reads a number of any sign.
    pub(super) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// Reads a text.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for number in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            assert_eq!(bytes.len(), (number.checked_ilog2().unwrap_or(0) as usize) / 7 + 1);
            let mut reader = Reader(&bytes);
            assert_eq!((reader.number(), reader.0.len()), (Some(number), 0));
            assert_eq!(Reader(&bytes[..bytes.len() - 1]).number(), None, "{number} cut short");
        }
        assert_eq!(Reader(&[0xff; 20]).number(), None);
    }

    #[test]
    fn numbers_of_any_sign_are_read_as_they_were_written() {
        for (number, length) in [(0, 1), (-1, 1), (63, 1), (-64, 1), (64, 2), (-65, 2), (i64::MAX, 10), (i64::MIN, 10)]
        {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, number);
            assert_eq!((bytes.len(), Reader(&bytes).signed()), (length, Some(number)));
            assert_eq!(Reader(&bytes[..length - 1]).signed(), None, "{number} cut short");
        }
    }

    #[test]
    fn texts_are_cut_and_read_as_they_were_written() {
        let mut bytes = Vec::new();
        let (long, short) = ("ä".repeat(200), "ä");
        put_text(&mut bytes, &long);
        put_text(&mut bytes, short);
        let mut reader = Reader(&bytes);
        assert_eq!(reader.text(), Some(&*"ä".repeat(limits::MAX_TEXT / 2)));
        assert_eq!((reader.text(), reader.text()), (Some(short), None));
    }
}

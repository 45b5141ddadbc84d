//! The protobuf wire format: varints, tags and lengths.

use crate::error::DecodeError;

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
const GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// The deepest nesting of groups in an unknown field. Groups have been deprecated since proto2.
const MAX_GROUPS: u32 = 100;

/// A boxed error, so that results fit in two registers.
pub(super) type Bad = Box<DecodeError>;

#[cold]
pub(super) fn end_of_input() -> Bad {
    Box::new(DecodeError::Value("unexpected EOF".to_owned()))
}

#[cold]
pub(super) fn malformed(why: &str) -> Bad {
    Box::new(DecodeError::Value(format!("proto: {why}")))
}

#[cold]
pub(super) fn wrong_type(number: u32) -> Bad {
    malformed(&format!("wrong wireType for field {number}"))
}

/// A cursor over one message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// One field of a message, as encoded.
pub(super) enum Field<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// A value that small messages never contain.
    Other,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Bad> {
        if let Some((byte, rest)) = self.rest.split_first()
            && *byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, Bad> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or_else(end_of_input)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(malformed("integer overflow"))
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Bad> {
        let len = usize::try_from(len).map_err(|_| malformed("negative length found during unmarshaling"))?;
        let (head, tail) = self.rest.split_at_checked(len).ok_or_else(end_of_input)?;
        self.rest = tail;
        Ok(head)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or_else(end_of_input)?;
        self.rest = tail;
        Ok(*head)
    }

    /// Returns the next field's number and wire type.
    #[inline]
    pub(super) fn tag(&mut self) -> Result<(u32, u8), Bad> {
        let tag = self.varint()?;
        match u32::try_from(tag >> 3) {
            Ok(number @ 1..0x2000_0000) => Ok((number, (tag & 7) as u8)),
            _ => Err(malformed(&format!("illegal tag {} (wire type {tag})", tag >> 3))),
        }
    }

    /// Returns the bytes of a field whose tag was read.
    #[inline]
    pub(super) fn bytes(&mut self, number: u32, kind: u8) -> Result<&'a [u8], Bad> {
        if kind != BYTES {
            return Err(wrong_type(number));
        }
        let len = self.varint()?;
        self.take(len)
    }

    /// Returns the number of a field whose tag was read.
    #[inline]
    pub(super) fn int(&mut self, number: u32, kind: u8) -> Result<u64, Bad> {
        if kind == VARINT { self.varint() } else { Err(wrong_type(number)) }
    }

    /// Returns the double of a field whose tag was read.
    pub(super) fn double(&mut self, number: u32, kind: u8) -> Result<f64, Bad> {
        if kind == FIXED64 { Ok(f64::from_le_bytes(self.fixed()?)) } else { Err(wrong_type(number)) }
    }

    /// Skips a field whose tag was read.
    pub(super) fn skip(&mut self, number: u32, kind: u8) -> Result<(), Bad> {
        self.payload(kind, number, 0).map(drop)
    }

    /// Returns the next field with its number.
    pub(super) fn field(&mut self) -> Result<(u32, Field<'a>), Bad> {
        let (number, kind) = self.tag()?;
        Ok((number, self.payload(kind, number, 0)?))
    }

    fn payload(&mut self, kind: u8, number: u32, groups: u32) -> Result<Field<'a>, Bad> {
        Ok(match kind {
            VARINT => Field::Varint(self.varint()?),
            BYTES => {
                let len = self.varint()?;
                Field::Bytes(self.take(len)?)
            }
            FIXED64 => {
                self.fixed::<8>()?;
                Field::Other
            }
            FIXED32 => {
                self.fixed::<4>()?;
                Field::Other
            }
            GROUP => self.group(number, groups + 1)?,
            END_GROUP => return Err(malformed("unexpected end of group")),
            _ => return Err(malformed(&format!("illegal wireType {kind}"))),
        })
    }

    /// Skips a group to its end.
    fn group(&mut self, number: u32, depth: u32) -> Result<Field<'a>, Bad> {
        if depth > MAX_GROUPS {
            return Err(malformed("groups nested too deeply"));
        }
        loop {
            let tag = self.varint()?;
            let inner = u32::try_from(tag >> 3).unwrap_or(0);
            if (tag & 7) as u8 == END_GROUP {
                return if inner == number { Ok(Field::Other) } else { Err(malformed("unexpected end of group")) };
            }
            self.payload((tag & 7) as u8, inner, depth)?;
        }
    }
}

#[inline]
pub(super) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the low seven bits are meant")]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "less than 0x80")]
    out.push(value as u8);
}

#[inline]
pub(super) fn put_tag(number: u32, kind: u8, out: &mut Vec<u8>) {
    put_varint(u64::from(number) << 3 | u64::from(kind), out);
}

#[inline]
pub(super) fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_tag(number, BYTES, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[inline]
pub(super) fn put_int(number: u32, value: i64, out: &mut Vec<u8>) {
    put_tag(number, VARINT, out);
    put_varint(value.cast_unsigned(), out);
}

/// Appends the message that `fill` writes, preceded by its length. The length is patched in afterwards: most messages are
/// shorter than 128 bytes, so no bytes move.
pub(super) fn put_message(number: u32, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    put_tag(number, BYTES, out);
    let at = out.len();
    out.push(0);
    fill(out);
    let len = out.len() - at - 1;
    if len < 0x80 {
        if let Some(slot) = out.get_mut(at) {
            *slot = u8::try_from(len).unwrap_or(0);
        }
        return;
    }
    let mut varint = Vec::with_capacity(5);
    put_varint(len as u64, &mut varint);
    out.splice(at..=at, varint);
}

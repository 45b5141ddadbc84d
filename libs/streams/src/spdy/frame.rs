//! Frames: reads and writes the eight bytes of a frame's head, and whole control frames.

use bytes::{BufMut, BytesMut};

use super::headers::{Packer, Unpacker};
use super::{Error, Headers};

/// The longest control frame in bytes.
pub(super) const MAX_CONTROL: usize = 16 << 10;
/// Flag: the sender sends nothing more on the stream.
const FIN: u8 = 1;
const VERSION: u16 = 3;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const SETTINGS: u16 = 4;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;

/// Reset status: one side no longer wants the stream.
pub(super) const CANCEL: u32 = 5;
/// Reset status: the stream was refused before any processing.
pub(super) const REFUSED: u32 = 3;

/// The first eight bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// A data frame.
    Data { id: u32, fin: bool, length: usize },
    /// A control frame.
    Control { kind: u16, flags: u8, length: usize },
}

/// A control frame that this implementation handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Open {
        id: u32,
        fin: bool,
        headers: Headers,
    },
    Reply {
        id: u32,
        fin: bool,
    },
    Reset {
        id: u32,
        status: u32,
    },
    Ping {
        id: u32,
    },
    GoAway {
        last: u32,
    },
    /// Later headers of a stream, of which only the end-of-stream flag is used.
    Headers {
        id: u32,
        fin: bool,
    },
    /// SETTINGS and WINDOW_UPDATE; the documentation of [`super`] says why.
    Ignored,
}

impl Head {
    pub(super) fn parse(bytes: [u8; 8]) -> Result<Self, Error> {
        let [a, b, c, d, flags, high, mid, low] = bytes;
        let (word, length) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([0, high, mid, low]));
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if word & 0x8000_0000 == 0 {
            let stream = if word == 0 { Err(Error::Protocol("stream 0")) } else { Ok(word) };
            return stream.map(|id| Self::Data { id, fin: flags & FIN != 0, length });
        }
        let [version_high, version_low] = [a & 0x7f, b];
        if u16::from_be_bytes([version_high, version_low]) != VERSION {
            return Err(Error::Protocol("another version"));
        }
        if length > MAX_CONTROL {
            return Err(Error::Protocol("control frame too long"));
        }
        Ok(Self::Control { kind: u16::from_be_bytes([c, d]), flags, length })
    }
}

/// Returns the first eight bytes of a data frame.
pub(super) fn data_head(id: u32, fin: bool, length: usize) -> [u8; 8] {
    let [a, b, c, d] = id.to_be_bytes();
    let [_, high, mid, low] = u32::try_from(length).unwrap_or(0).to_be_bytes();
    [a, b, c, d, u8::from(fin) * FIN, high, mid, low]
}

impl Frame {
    /// Reads a control frame's content after the head. Every header block must be parsed here, in order, even if its stream is refused: all blocks share one zlib stream.
    pub(super) fn parse(kind: u16, flags: u8, payload: &[u8], unpacker: &mut Unpacker) -> Result<Self, Error> {
        let fin = flags & FIN != 0;
        let word = |at: usize| {
            let bytes = payload.get(at..).and_then(|rest| rest.first_chunk::<4>());
            bytes.map(|bytes| u32::from_be_bytes(*bytes)).ok_or(Error::Protocol("control frame too short"))
        };
        let id = || match word(0)? & 0x7fff_ffff {
            0 => Err(Error::Protocol("stream 0")),
            id => Ok(id),
        };
        let mut block = |at: usize| {
            let block = payload.get(at..).ok_or(Error::Protocol("control frame too short"))?;
            unpacker.unpack(block)
        };
        Ok(match kind {
            SYN_STREAM => Self::Open { headers: block(10)?, id: id()?, fin },
            SYN_REPLY => {
                block(4)?;
                Self::Reply { id: id()?, fin }
            }
            HEADERS => {
                block(4)?;
                Self::Headers { id: id()?, fin }
            }
            RST_STREAM => Self::Reset { id: id()?, status: word(4)? },
            PING => Self::Ping { id: word(0)? },
            GOAWAY => Self::GoAway { last: word(0)? & 0x7fff_ffff },
            SETTINGS | WINDOW_UPDATE => Self::Ignored,
            _ => return Err(Error::Protocol("unknown control frame")),
        })
    }

    /// Writes the frame.
    pub(super) fn put(&self, out: &mut BytesMut, packer: &mut Packer) -> Result<(), Error> {
        let mut payload = BytesMut::new();
        let (kind, fin) = match self {
            Self::Open { id, fin, headers } => {
                payload.put_u32(*id);
                // Associated with no stream, priority 0, slot 0.
                payload.put_u32(0);
                payload.put_u16(0);
                payload.put_slice(&packer.pack(headers)?);
                (SYN_STREAM, *fin)
            }
            Self::Reply { id, fin } => {
                payload.put_u32(*id);
                payload.put_slice(&packer.pack(&Headers::new())?);
                (SYN_REPLY, *fin)
            }
            Self::Headers { id, fin } => {
                payload.put_u32(*id);
                payload.put_slice(&packer.pack(&Headers::new())?);
                (HEADERS, *fin)
            }
            Self::Reset { id, status } => {
                payload.put_u32(*id);
                payload.put_u32(*status);
                (RST_STREAM, false)
            }
            Self::Ping { id } => {
                payload.put_u32(*id);
                (PING, false)
            }
            Self::GoAway { last } => {
                payload.put_u32(*last);
                payload.put_u32(0);
                (GOAWAY, false)
            }
            Self::Ignored => return Ok(()),
        };
        out.put_u16(0x8000 | VERSION);
        out.put_u16(kind);
        let flags = u32::from(fin) * u32::from(FIN);
        out.put_u32(flags << 24 | u32::try_from(payload.len()).unwrap_or(0));
        out.put_slice(&payload);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], unpacker: &mut Unpacker) -> Result<Vec<Frame>, Error> {
        let (mut frames, mut rest) = (Vec::new(), bytes);
        while let Some((head, behind)) = rest.split_first_chunk::<8>() {
            let head = Head::parse(*head)?;
            let (Head::Data { length, .. } | Head::Control { length, .. }) = head;
            let (payload, behind) = behind.split_at_checked(length).ok_or(Error::Protocol("cut off"))?;
            if let Head::Control { kind, flags, .. } = head {
                frames.push(Frame::parse(kind, flags, payload, unpacker)?);
            }
            rest = behind;
        }
        Ok(frames)
    }

    fn all() -> Vec<Frame> {
        let headers = vec![("streamtype".to_owned(), "stdin".to_owned()), ("port".to_owned(), "80".to_owned())];
        vec![
            Frame::Open { id: 1, fin: false, headers },
            Frame::Reply { id: 1, fin: true },
            Frame::Reset { id: 0x7fff_ffff, status: CANCEL },
            Frame::Ping { id: 7 },
            Frame::Headers { id: 3, fin: true },
            Frame::GoAway { last: 9 },
        ]
    }

    fn written(frames: &[Frame]) -> BytesMut {
        let (mut out, mut packer) = (BytesMut::new(), Packer::new().unwrap());
        for frame in frames {
            frame.put(&mut out, &mut packer).unwrap();
        }
        out
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&written(&all()), &mut Unpacker::new()).unwrap(), all());
        let head = Head::Data { id: 5, fin: true, length: 70_000 };
        assert_eq!(Head::parse(data_head(5, true, 70_000)).unwrap(), head);
    }

    #[test]
    fn a_ping_is_as_the_draft_has_it() {
        assert_eq!(&written(&[Frame::Ping { id: 1 }])[..], [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1]);
    }

    #[test]
    fn wrong_heads_are_refused() {
        for head in [[0; 8], [0x80, 2, 0, 1, 0, 0, 0, 12], [0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff]] {
            assert!(Head::parse(head).is_err(), "{head:?}");
        }
        assert!(read(&[0x80, 3, 0, 77, 0, 0, 0, 0], &mut Unpacker::new()).is_err());
    }

    #[test]
    fn damaged_frames_are_refused_or_read() {
        let whole = written(&all());
        let mut refused = 0;
        for bytes in oarlock_testkit::damaged(1, &whole, 5000) {
            refused += usize::from(read(&bytes, &mut Unpacker::new()).is_err());
        }
        assert!(refused > 2000, "only {refused} were refused");
    }
}

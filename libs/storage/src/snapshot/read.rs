//! The snapshot reader: checks every byte and reports damage with its position.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use oarlock_meta::Revision;

use super::{Digest, END, FORMAT, FRAME_HEAD, HEADER, Header, MAGIC, MAX_BODY, OBJECT, Object, Summary};
use crate::Key;

/// Why a snapshot cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file does not begin with the magic bytes of a snapshot.
    #[error("this is no snapshot: it does not begin as one")]
    Foreign,
    /// A later version of Oarlock wrote the snapshot.
    #[error("format {0} of snapshots is not known, only {FORMAT}")]
    Format(u32),
    /// The content fails a check.
    #[error("the snapshot is damaged at byte {offset}: {what}")]
    Damaged {
        /// Position: the start of the damaged part, or the end of a file that is too short.
        offset: u64,
        /// Description of the damage.
        what: String,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reader of one snapshot: an iterator over its objects. The objects are valid only if the iteration ends without an error.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    header: Header,
    /// Bytes read so far.
    offset: u64,
    digest: Option<Digest>,
    summary: Option<Summary>,
}

/// One frame, with its position in the file.
struct Frame {
    offset: u64,
    kind: u8,
    body: Bytes,
}

impl Frame {
    fn damaged(&self, what: impl Into<String>) -> ReadError {
        ReadError::Damaged { offset: self.offset, what: what.into() }
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn open(from: R) -> Result<Self, ReadError> {
        let header = Header { cluster: String::new(), revision: Revision::ZERO, count: 0 };
        let mut reader = Self { from, header, offset: 0, digest: Some(Digest::default()), summary: None };
        let mut start = reader.bytes(MAGIC.len() + size_of::<u32>())?;
        if start.split_to(MAGIC.len()) != MAGIC.as_slice() {
            return Err(ReadError::Foreign);
        }
        let format = start.get_u32_le();
        if format != FORMAT {
            return Err(ReadError::Format(format));
        }
        let frame = reader.frame()?;
        let mut body = frame.body.clone();
        if frame.kind != HEADER || body.len() < 16 {
            return Err(frame.damaged("the header is missing"));
        }
        let (revision, count) = (Revision(body.get_u64_le()), body.get_u64_le());
        let cluster = String::from_utf8(body.into()).map_err(|_| frame.damaged("the cluster's name is no text"))?;
        reader.header = Header { cluster, revision, count };
        Ok(reader)
    }

    /// Returns the snapshot's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the summary, once the whole snapshot has been read and verified.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        self.summary
    }

    /// Returns the number of bytes read so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the next object; `None` at the end.
    fn advance(&mut self) -> Result<Option<Object>, ReadError> {
        let Some(mut digest) = self.digest.take() else { return Ok(None) };
        let frame = self.frame()?;
        if frame.kind == OBJECT {
            let object = object(frame.body.clone()).ok_or_else(|| frame.damaged("an object without a key"))?;
            digest.add(&object.key, &object.value).map_err(|disorder| frame.damaged(disorder.to_string()))?;
            self.digest = Some(digest);
            return Ok(Some(object));
        }
        let mut body = frame.body.clone();
        if frame.kind != END || body.len() != 40 {
            return Err(frame.damaged("neither an object nor the end"));
        }
        let found = digest.finish();
        let count = body.get_u64_le();
        if [count, self.header.count] != [found.count; 2] {
            let what = format!("{} objects, {} were announced and {count} written", found.count, self.header.count);
            return Err(frame.damaged(what));
        }
        if body != found.hash.as_slice() {
            return Err(frame.damaged(format!("the objects have the hash {found}, which is not the one written")));
        }
        let end = self.offset;
        if self.from.read(&mut [0])? != 0 {
            return Err(ReadError::Damaged { offset: end, what: "something follows the end".into() });
        }
        self.summary = Some(found);
        Ok(None)
    }

    fn frame(&mut self) -> Result<Frame, ReadError> {
        let offset = self.offset;
        let damaged = |what: String| ReadError::Damaged { offset, what };
        let head = self.bytes(FRAME_HEAD)?;
        let mut fields = head.clone();
        let (kind, length) = (fields.get_u8(), fields.get_u32_le() as usize);
        if length > MAX_BODY {
            return Err(damaged(format!("a part of {length} bytes, more than any can have")));
        }
        let body = self.bytes(length)?;
        let written = self.bytes(size_of::<u32>())?.get_u32_le();
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head);
        sum.update(&body);
        if sum.finalize() != written {
            return Err(damaged("the checksum is another".into()));
        }
        Ok(Frame { offset, kind, body })
    }

    fn bytes(&mut self, length: usize) -> Result<Bytes, ReadError> {
        let mut bytes = Vec::new();
        self.from.by_ref().take(length as u64).read_to_end(&mut bytes)?;
        self.offset += bytes.len() as u64;
        if bytes.len() < length {
            return Err(ReadError::Damaged { offset: self.offset, what: "it ends here, too early".into() });
        }
        Ok(bytes.into())
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Object, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

fn object(mut body: Bytes) -> Option<Object> {
    if body.len() < 12 {
        return None;
    }
    let revision = Revision(body.get_u64_le());
    let (prefix, length) = (usize::from(body.get_u16_le()), usize::from(body.get_u16_le()));
    if body.len() < length {
        return None;
    }
    let key = body.split_to(length);
    let key = Key::from_parts(std::str::from_utf8(&key).ok()?, prefix)?;
    Some(Object { key, revision: (!revision.is_zero()).then_some(revision), value: body })
}

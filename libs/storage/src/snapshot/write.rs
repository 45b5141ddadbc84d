//! The snapshot encoder: writes a snapshot frame by frame.

use bytes::{BufMut, BytesMut};

use super::{Digest, END, FORMAT, HEADER, Header, MAGIC, OBJECT, Object, OutOfOrder, Summary};

/// Encoder for the frames of one snapshot, in their order.
#[derive(Debug)]
pub struct Encoder {
    digest: Digest,
}

impl Encoder {
    /// Writes the header frame.
    pub fn begin(header: &Header, out: &mut BytesMut) -> Self {
        out.put_slice(MAGIC);
        out.put_u32_le(FORMAT);
        frame(
            HEADER,
            &[&header.revision.get().to_le_bytes(), &header.count.to_le_bytes(), header.cluster.as_bytes()],
            out,
        );
        Self { digest: Digest::default() }
    }

    /// Writes the frame of an object.
    ///
    /// # Errors
    /// [`OutOfOrder`] when the key is not greater than the one before.
    pub fn object(&mut self, object: &Object, out: &mut BytesMut) -> Result<(), OutOfOrder> {
        let Object { key, revision, value } = object;
        self.digest.add(key, value)?;
        let short = |length: usize| u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes();
        let revision = revision.unwrap_or_default().get().to_le_bytes();
        let (prefix, length) = (short(key.resource().len()), short(key.as_str().len()));
        frame(OBJECT, &[&revision, &prefix, &length, key.as_str().as_bytes(), value], out);
        Ok(())
    }

    /// Writes the end frame and returns the summary.
    pub fn end(self, out: &mut BytesMut) -> Summary {
        let summary = self.digest.finish();
        frame(END, &[&summary.count.to_le_bytes(), &summary.hash], out);
        summary
    }
}

/// Writes a frame whose body is the concatenation of `parts`. Bodies stay below 4 GiB because values are bounded.
fn frame(kind: u8, parts: &[&[u8]], out: &mut BytesMut) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let mut sum = crc32fast::Hasher::new();
    for part in [&[kind][..], &length].iter().chain(parts) {
        sum.update(part);
        out.put_slice(part);
    }
    out.put_u32_le(sum.finalize());
}

//! Header blocks: one zlib stream per direction for the whole connection, which starts with the preset dictionary.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::dictionary::DICTIONARY;
use super::{Error, Headers};

/// The most bytes of a decompressed header block.
const MAX_BLOCK: usize = 16 << 10;

/// Compresses header blocks.
pub(super) struct Packer(Compress);

impl Packer {
    pub(super) fn new() -> Result<Self, Error> {
        let mut inner = Compress::new(Compression::default(), true);
        inner.set_dictionary(&DICTIONARY).map_err(|_| Error::Protocol("no dictionary"))?;
        Ok(Self(inner))
    }

    pub(super) fn pack(&mut self, headers: &Headers) -> Result<Vec<u8>, Error> {
        let plain = encode(headers);
        let mut out = Vec::with_capacity(plain.len() + 64);
        let start = self.0.total_in();
        loop {
            let done = usize::try_from(self.0.total_in() - start).unwrap_or(usize::MAX);
            let rest = plain.get(done..).unwrap_or_default();
            self.0
                .compress_vec(rest, &mut out, FlushCompress::Sync)
                .map_err(|_| Error::Protocol("headers cannot be packed"))?;
            let all = usize::try_from(self.0.total_in() - start).unwrap_or(usize::MAX) >= plain.len();
            // A flush is complete when the output buffer has room left.
            if all && out.len() < out.capacity() {
                return Ok(out);
            }
            out.reserve(256);
        }
    }
}

/// Decompresses header blocks.
pub(super) struct Unpacker(Decompress);

impl Unpacker {
    pub(super) fn new() -> Self {
        Self(Decompress::new(true))
    }

    pub(super) fn unpack(&mut self, block: &[u8]) -> Result<Headers, Error> {
        let mut out = Vec::with_capacity(1024);
        let start = self.0.total_in();
        let mut dictionary = false;
        loop {
            let done = usize::try_from(self.0.total_in() - start).unwrap_or(usize::MAX);
            let rest = block.get(done..).unwrap_or_default();
            let (was_in, was_out) = (self.0.total_in(), self.0.total_out());
            match self.0.decompress_vec(rest, &mut out, FlushDecompress::Sync) {
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() && !dictionary => {
                    dictionary = true;
                    self.0.set_dictionary(&DICTIONARY).map_err(|_| Error::Protocol("another dictionary"))?;
                    continue;
                }
                Err(_) => return Err(Error::Protocol("headers cannot be unpacked")),
            }
            if out.len() > MAX_BLOCK {
                return Err(Error::Protocol("too many headers"));
            }
            if out.len() == out.capacity() {
                out.reserve(1024);
                continue;
            }
            let all = usize::try_from(self.0.total_in() - start).unwrap_or(usize::MAX) >= block.len();
            if all {
                return decode(&out);
            }
            if self.0.total_in() == was_in && self.0.total_out() == was_out {
                return Err(Error::Protocol("headers with something behind them"));
            }
        }
    }
}

fn encode(headers: &Headers) -> Vec<u8> {
    let mut out = Vec::new();
    let put = |length: usize| u32::try_from(length).unwrap_or(0).to_be_bytes();
    out.extend_from_slice(&put(headers.len()));
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        out.extend_from_slice(&put(text.len()));
        out.extend_from_slice(text.as_bytes());
    }
    out
}

fn decode(mut block: &[u8]) -> Result<Headers, Error> {
    let broken = Error::Protocol("broken headers");
    let Some(count) = number(&mut block) else { return Err(broken) };
    let mut headers = Headers::new();
    for _ in 0..count {
        let (Some(name), Some(value)) = (text(&mut block), text(&mut block)) else { return Err(broken) };
        headers.push((name.to_ascii_lowercase(), value));
    }
    Ok(headers)
}

fn number(block: &mut &[u8]) -> Option<u32> {
    let (number, rest) = block.split_first_chunk::<4>()?;
    *block = rest;
    Some(u32::from_be_bytes(*number))
}

fn text(block: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(number(block)?).ok()?;
    let (text, rest) = block.split_at_checked(length)?;
    *block = rest;
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_dictionary_is_the_drafts() {
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in DICTIONARY.iter() {
            a = (a + u32::from(*byte)) % 65521;
            b = (b + a) % 65521;
        }
        // The dictionary's Adler-32, which the first header block of every connection carries.
        assert_eq!((DICTIONARY.len(), b << 16 | a), (1423, 0xe3c6_a7c2));
    }

    #[test]
    fn blocks_come_through_one_after_another() {
        let (mut packer, mut unpacker) = (Packer::new().unwrap(), Unpacker::new());
        let long = "x".repeat(5000);
        let blocks = [&[("streamtype", "error")][..], &[("streamtype", "stdin"), ("port", "80")], &[], &[("a", &long)]];
        for block in blocks {
            let block = headers(block);
            let packed = packer.pack(&block).unwrap();
            assert_eq!(unpacker.unpack(&packed).unwrap(), block);
        }
    }

    #[test]
    fn a_block_that_unfolds_too_far_is_refused() {
        let mut packer = Packer::new().unwrap();
        let bomb = "0".repeat(1 << 20);
        let packed = packer.pack(&headers(&[("a", &bomb)])).unwrap();
        assert!(packed.len() < 8192, "{}", packed.len());
        assert!(Unpacker::new().unpack(&packed).is_err());
    }

    #[test]
    fn damaged_blocks_are_refused_or_read() {
        let block = headers(&[("streamtype", "stdin"), ("port", "8080"), ("requestid", "17")]);
        let packed = Packer::new().unwrap().pack(&block).unwrap();
        let (mut read, mut refused) = (0, 0);
        for bytes in oarlock_testkit::damaged(1, &packed, 3000) {
            match Unpacker::new().unpack(&bytes) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
        for bytes in oarlock_testkit::damaged(2, &encode(&block), 3000) {
            let _ = decode(&bytes);
        }
        assert!(read > 0 && refused > 1000, "{read} read, {refused} refused");
    }
}

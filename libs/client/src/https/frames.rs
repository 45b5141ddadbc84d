//! Splits a watch's byte stream into lines. Only lines across chunk boundaries are copied.

use bytes::{Bytes, BytesMut};

/// Longest event, in bytes: several objects at the apiserver's limit of 3 MiB per body.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// Error for an event longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Splitter of a byte stream into lines. A line within one chunk shares its bytes; a line across chunks is joined once.
#[derive(Debug, Default)]
pub(super) struct Frames {
    rest: BytesMut,
}

impl Frames {
    /// Adds a chunk and appends all complete lines, without line breaks, to `lines`. Empty lines are skipped.
    pub(super) fn push(&mut self, mut chunk: Bytes, lines: &mut Vec<Bytes>) -> Result<(), TooLong> {
        while let Some(at) = memchr::memchr(b'\n', &chunk) {
            let mut line = chunk.split_to(at + 1);
            line.truncate(at);
            if !self.rest.is_empty() {
                self.rest.extend_from_slice(&line);
                line = self.rest.split().freeze();
            }
            if !line.is_empty() {
                lines.push(line);
            }
        }
        if self.rest.len() + chunk.len() > MAX_EVENT_BYTES {
            return Err(TooLong);
        }
        self.rest.extend_from_slice(&chunk);
        Ok(())
    }

    /// Whether the last line is incomplete.
    pub(super) fn has_partial_line(&self) -> bool {
        !self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&str]) -> (Vec<String>, bool) {
        let (mut frames, mut lines) = (Frames::default(), Vec::new());
        for chunk in chunks {
            frames.push(Bytes::copy_from_slice(chunk.as_bytes()), &mut lines).unwrap();
        }
        (lines.iter().map(|line| String::from_utf8(line.to_vec()).unwrap()).collect(), frames.has_partial_line())
    }

    #[test]
    fn lines_are_whole_however_the_chunks_fall() {
        let text = "{\"a\":1}\n{}\n\n{\"b\":\"x\"}\n";
        let whole = lines(&[text]);
        assert_eq!(whole, (vec!["{\"a\":1}".into(), "{}".into(), "{\"b\":\"x\"}".into()], false));
        for first in 0..text.len() {
            for second in first..text.len() {
                assert_eq!(lines(&[&text[..first], &text[first..second], &text[second..]]), whole, "{first} {second}");
            }
        }
    }

    #[test]
    fn a_line_without_end_stays_open() {
        assert_eq!(lines(&["{}\n{\"a\""]), (vec!["{}".into()], true));
    }

    #[test]
    fn a_line_in_one_chunk_is_not_copied() {
        let chunk = Bytes::from_static(b"{}\n[]\n");
        let mut out = Vec::new();
        Frames::default().push(chunk.clone(), &mut out).unwrap();
        assert_eq!(out[1].as_ptr(), chunk.slice(3..).as_ptr());
    }

    #[test]
    fn refuses_a_line_beyond_the_limit() {
        let mut frames = Frames::default();
        let chunk = Bytes::from(vec![b'x'; MAX_EVENT_BYTES / 2 + 1]);
        assert_eq!(frames.push(chunk.clone(), &mut Vec::new()), Ok(()));
        assert_eq!(frames.push(chunk, &mut Vec::new()), Err(TooLong));
    }
}

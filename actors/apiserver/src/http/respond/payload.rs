//! Bodies that are produced while the connection sends them: neither a long list nor its compressed form is ever in memory as a whole.

use std::io::Write as _;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use crate::http::{Body, BodyError, full};

/// Size in bytes above which answers are compressed for clients that accept gzip (upstream: 128 KiB).
const GZIP_ABOVE_BYTES: usize = 128 * 1024;
/// Size of one frame in bytes.
const FRAME_BYTES: usize = 64 * 1024;

/// A body with its content encoding.
pub(in crate::http) struct Payload {
    /// The body.
    pub(in crate::http) body: Body,
    /// Whether the body is compressed with gzip.
    pub(in crate::http) gzip: bool,
    /// Number of bytes that the body keeps in memory, or shares with the View, until it has been sent.
    pub(in crate::http) size: usize,
}

/// Creates a body of parts that are `size` bytes in total.
pub(in crate::http) fn of(parts: impl Iterator<Item = Bytes> + Send + 'static, size: usize, gzip: bool) -> Payload {
    if size <= GZIP_ABOVE_BYTES {
        let mut whole = BytesMut::with_capacity(size);
        parts.for_each(|part| whole.extend_from_slice(&part));
        return Payload { body: full(whole), gzip: false, size };
    }
    let sink = if gzip {
        Sink::Gzip(Some(Box::new(GzEncoder::new(Vec::with_capacity(FRAME_BYTES), Compression::fast()))))
    } else {
        Sink::Plain(Vec::new())
    };
    let frames = Chunks { parts, sink }.map(|chunk| Ok::<_, BodyError>(Frame::data(chunk)));
    Payload { body: StreamBody::new(stream::iter(frames)).boxed_unsync(), gzip, size }
}

/// Creates a body of bytes that are all present.
pub(in crate::http) fn whole(bytes: Bytes, gzip: bool) -> Payload {
    let size = bytes.len();
    if size <= GZIP_ABOVE_BYTES {
        return Payload { body: full(bytes), gzip: false, size };
    }
    // Slices of a `Bytes` share its memory.
    let parts = (0..size).step_by(FRAME_BYTES).map(move |at| bytes.slice(at..size.min(at + FRAME_BYTES)));
    of(parts, size, gzip)
}

/// The buffer that collects the parts of a body until they fill a frame; plain or compressed.
enum Sink {
    Plain(Vec<u8>),
    /// `None` once the gzip trailer has been written.
    Gzip(Option<Box<GzEncoder<Vec<u8>>>>),
}

struct Chunks<I> {
    parts: I,
    sink: Sink,
}

impl<I: Iterator<Item = Bytes>> Iterator for Chunks<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        for part in self.parts.by_ref() {
            let ready = match &mut self.sink {
                Sink::Plain(buffer) => {
                    buffer.extend_from_slice(&part);
                    if buffer.len() < FRAME_BYTES {
                        continue;
                    }
                    std::mem::take(buffer)
                }
                Sink::Gzip(Some(encoder)) => {
                    // Writing into memory cannot fail.
                    let _ = encoder.write_all(&part);
                    if encoder.get_ref().len() < FRAME_BYTES / 2 {
                        continue;
                    }
                    std::mem::take(encoder.get_mut())
                }
                Sink::Gzip(None) => return None,
            };
            return Some(ready.into());
        }
        let rest = match &mut self.sink {
            Sink::Plain(buffer) => std::mem::take(buffer),
            Sink::Gzip(encoder) => encoder.take().and_then(|encoder| encoder.finish().ok()).unwrap_or_default(),
        };
        (!rest.is_empty()).then(|| rest.into())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn collect(payload: Payload) -> Vec<u8> {
        let mut body = payload.body;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async move {
            let mut all = Vec::new();
            while let Some(frame) = body.frame().await {
                let data = frame.unwrap().into_data().unwrap();
                assert!(!data.is_empty());
                all.extend_from_slice(&data);
            }
            all
        })
    }

    fn parts(count: usize) -> impl Iterator<Item = Bytes> + Send + 'static {
        (0..count).map(|i| Bytes::from(format!("{{\"name\":\"web-{i}\"}},").repeat(10)))
    }

    #[test]
    fn a_long_body_is_the_same_compressed_or_not() {
        let want: Vec<u8> = parts(5_000).flatten().collect();
        assert_eq!(collect(of(parts(5_000), want.len(), false)), want);
        let packed = of(parts(5_000), want.len(), true);
        assert!(packed.gzip);
        let packed = collect(packed);
        assert!(packed.len() < want.len() / 4);
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut back).unwrap();
        assert_eq!(back, want);
        assert_eq!(collect(whole(want.clone().into(), false)), want);
    }

    #[test]
    fn short_bodies_stay_as_they_are() {
        let payload = whole(Bytes::from_static(b"{}\n"), true);
        assert!(!payload.gzip);
        assert_eq!(collect(payload), b"{}\n");
    }
}

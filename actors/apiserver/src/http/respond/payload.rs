//! Bodies that are made as the connection takes them: a long list is never there as a whole, nor its compressed form.

use std::io::Write as _;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use crate::http::{Body, BodyError, full};

/// Answers longer than this are compressed for clients that take it (upstream: 128 KiB).
const GZIP_ABOVE: usize = 128 * 1024;
/// Size of one frame.
const CHUNK: usize = 64 * 1024;

/// A body, and whether it is compressed.
pub(in crate::http) struct Payload {
    /// The body.
    pub(in crate::http) body: Body,
    /// It is gzip.
    pub(in crate::http) gzip: bool,
}

/// The body of some parts that are `size` bytes together.
pub(in crate::http) fn of(parts: impl Iterator<Item = Bytes> + Send + 'static, size: usize, gzip: bool) -> Payload {
    if size <= GZIP_ABOVE {
        let mut whole = BytesMut::with_capacity(size);
        parts.for_each(|part| whole.extend_from_slice(&part));
        return Payload { body: full(whole), gzip: false };
    }
    let sink = if gzip {
        Sink::Gzip(Some(Box::new(GzEncoder::new(Vec::with_capacity(CHUNK), Compression::fast()))))
    } else {
        Sink::Plain(Vec::new())
    };
    let frames = Chunks { parts, sink }.map(|chunk| Ok::<_, BodyError>(Frame::data(chunk)));
    Payload { body: StreamBody::new(stream::iter(frames)).boxed_unsync(), gzip }
}

/// The body of bytes that are there.
pub(in crate::http) fn whole(bytes: Bytes, gzip: bool) -> Payload {
    let size = bytes.len();
    if size <= GZIP_ABOVE {
        return Payload { body: full(bytes), gzip: false };
    }
    // Slices of a Bytes share it.
    let parts = (0..size).step_by(CHUNK).map(move |at| bytes.slice(at..size.min(at + CHUNK)));
    of(parts, size, gzip)
}

/// Where parts collect until they make a frame.
enum Sink {
    Plain(Vec<u8>),
    /// `None` when the end is written.
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
                    if buffer.len() < CHUNK {
                        continue;
                    }
                    std::mem::take(buffer)
                }
                Sink::Gzip(Some(encoder)) => {
                    // Writing into memory cannot fail.
                    let _ = encoder.write_all(&part);
                    if encoder.get_ref().len() < CHUNK / 2 {
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

//! Rewrites the links in proxied HTML answers, compressed or not, chunk by chunk: memory never holds the whole answer or the whole decompressed text.

use std::io::{self, Write};

use bytes::{Buf as _, Bytes};
use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder, GzEncoder, MultiGzDecoder, ZlibDecoder, ZlibEncoder};
use futures::stream;
use http::{Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use super::html::Rewriter;
use super::links::ProxyAddresses;
use crate::http::{Body, BodyError};

/// Maximum number of input bytes per step. A decoder takes less when its output buffer of 32 KiB is full.
const STEP_BYTES: usize = 4 << 10;

/// Number of page bytes, or of compressed bytes if these are more, after which the task yields: a little input may decompress to a thousand times its
/// size.
const YIELD_AFTER_BYTES: u64 = 64 << 10;

/// Returns the answer with its links rewritten if it is HTML in a known encoding, otherwise unchanged.
pub(super) fn html(response: Response<Body>, through: ProxyAddresses) -> Response<Body> {
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let media = text(header::CONTENT_TYPE).split(';').next().unwrap_or("").trim();
    if !media.eq_ignore_ascii_case("text/html") {
        return response;
    }
    let codec = match text(header::CONTENT_ENCODING) {
        "" => Codec::Plain(Rewriter::new(Vec::new(), through)),
        "gzip" => {
            let encoder = GzEncoder::new(Vec::new(), Compression::default());
            Codec::Gzip(Box::new(MultiGzDecoder::new(Rewriter::new(encoder, through))))
        }
        "deflate" => Codec::Unknown(through),
        encoding => {
            tracing::debug!(encoding, "links of an answer are not rewritten: its encoding is not known");
            return response;
        }
    };
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let initial = Rewriting { body, rest: Bytes::new(), codec: Some(codec), since_yield: 0 };
    let frames = stream::unfold(initial, |mut rewriting| async move {
        let next = rewriting.next().await?;
        Some((next.map(Frame::data), rewriting))
    });
    Response::from_parts(parts, StreamBody::new(frames).boxed_unsync())
}

/// The decoder, filter and encoder of an answer.
enum Codec {
    Plain(Rewriter<Vec<u8>>),
    Gzip(Box<MultiGzDecoder<Rewriter<GzEncoder<Vec<u8>>>>>),
    /// `deflate`: zlib by the standard, but upstream and some servers send raw deflate; the first byte distinguishes them.
    Unknown(ProxyAddresses),
    Zlib(Box<ZlibDecoder<Rewriter<ZlibEncoder<Vec<u8>>>>>),
    Deflate(Box<DeflateDecoder<Rewriter<DeflateEncoder<Vec<u8>>>>>),
}

impl Codec {
    /// Processes some bytes of a chunk and returns the output.
    fn write(self, part: &[u8]) -> io::Result<Written> {
        let mut codec = match self {
            // 0x78 means method 8 with a window of 32 KiB. A raw stream with this byte would begin with a stored block with padding.
            Self::Unknown(through) if part.first() == Some(&0x78) => {
                let encoder = ZlibEncoder::new(Vec::new(), Compression::default());
                Self::Zlib(Box::new(ZlibDecoder::new(Rewriter::new(encoder, through))))
            }
            Self::Unknown(through) => {
                let encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                Self::Deflate(Box::new(DeflateDecoder::new(Rewriter::new(encoder, through))))
            }
            known => known,
        };
        let before = codec.page();
        // Only one step per call, since a step makes at most a full buffer of output.
        let (taken, out) = match &mut codec {
            Self::Plain(rewriter) => (rewriter.write(part)?, rewriter.get_mut()),
            Self::Gzip(decoder) => (decoder.write(part)?, decoder.get_mut().get_mut().get_mut()),
            Self::Zlib(decoder) => (decoder.write(part)?, decoder.get_mut().get_mut().get_mut()),
            Self::Deflate(decoder) => (decoder.write(part)?, decoder.get_mut().get_mut().get_mut()),
            Self::Unknown(_) => return Err(io::Error::other("the encoding is unknown")),
        };
        if taken == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let out = std::mem::take(out);
        let page = codec.page() - before;
        Ok(Written { codec, taken, out, page })
    }

    /// Returns the number of page bytes so far.
    fn page(&self) -> u64 {
        match self {
            Self::Plain(rewriter) => rewriter.taken(),
            Self::Gzip(decoder) => decoder.get_ref().taken(),
            Self::Unknown(_) => 0,
            Self::Zlib(decoder) => decoder.get_ref().taken(),
            Self::Deflate(decoder) => decoder.get_ref().taken(),
        }
    }

    /// Returns the remaining output.
    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(rewriter) => rewriter.finish(),
            Self::Gzip(decoder) => decoder.finish()?.finish()?.finish(),
            Self::Zlib(decoder) => decoder.finish()?.finish()?.finish(),
            Self::Deflate(decoder) => decoder.finish()?.finish()?.finish(),
            Self::Unknown(_) => Ok(Vec::new()),
        }
    }
}

/// The result of one step.
struct Written {
    codec: Codec,
    /// Number of input bytes used.
    taken: usize,
    out: Vec<u8>,
    /// Number of page bytes they became.
    page: u64,
}

/// An answer that is being rewritten.
struct Rewriting {
    body: Body,
    /// Input that has arrived but has not been processed.
    rest: Bytes,
    /// `None` after the end.
    codec: Option<Codec>,
    /// Number of page bytes since the task last yielded.
    since_yield: u64,
}

impl Rewriting {
    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            if self.since_yield >= YIELD_AFTER_BYTES {
                self.since_yield = 0;
                tokio::task::yield_now().await;
            }
            let codec = self.codec.take()?;
            while self.rest.is_empty() {
                match self.body.frame().await {
                    None => return end(codec.finish()),
                    Some(Err(error)) => return Some(Err(error)),
                    Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                }
            }
            let part = self.rest.get(..self.rest.len().min(STEP_BYTES)).unwrap_or_default();
            let Written { codec, taken, out, page } = match codec.write(part) {
                Ok(written) => written,
                Err(error) => return end(Err(error)),
            };
            self.rest.advance(taken.min(self.rest.len()));
            self.codec = Some(codec);
            // Compressed bytes that yield no page bytes are work too.
            self.since_yield += page.max(taken as u64);
            if !out.is_empty() {
                return Some(Ok(out.into()));
            }
        }
    }
}

fn end(last: io::Result<Vec<u8>>) -> Option<Result<Bytes, BodyError>> {
    match last {
        Ok(last) if last.is_empty() => None,
        Ok(last) => Some(Ok(last.into())),
        Err(error) => {
            tracing::debug!(%error, "links of an answer cannot be rewritten");
            Some(Err(BodyError::BrokenOff))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::task::Poll;

    use hyper::body::Body as _;

    use super::*;
    use crate::http::full;

    fn through() -> ProxyAddresses {
        ProxyAddresses { prefix: "/p".to_owned(), backend: "b:80".to_owned(), called: "c".to_owned() }
    }

    fn answer(media: &str, encoding: &str, body: Vec<u8>) -> Response<Body> {
        let mut response = Response::builder().header("content-type", media).header("content-length", body.len());
        if !encoding.is_empty() {
            response = response.header("content-encoding", encoding);
        }
        response.body(full(body)).unwrap()
    }

    async fn rewritten(media: &str, encoding: &str, body: Vec<u8>) -> (bool, Vec<u8>) {
        let response = html(answer(media, encoding, body), through());
        let sized = response.headers().contains_key("content-length");
        (sized, response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    const PAGE: &str = r#"<a href="/x">"#;
    const CHANGED: &str = r#"<a href="/p/x">"#;

    #[tokio::test]
    async fn html_is_rewritten_in_every_encoding_that_is_known() {
        let (page, changed) = (PAGE.repeat(2000), CHANGED.repeat(2000));
        let (sized, plain) = rewritten("text/html; charset=utf-8", "", page.clone().into()).await;
        assert!(!sized && plain == changed.as_bytes());

        let mut body = Vec::new();
        GzEncoder::new(&mut body, Compression::fast()).write_all(page.as_bytes()).unwrap();
        let (_, out) = rewritten("text/html", "gzip", body.clone()).await;
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(out.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, changed);

        let mut body = Vec::new();
        ZlibEncoder::new(&mut body, Compression::default()).write_all(page.as_bytes()).unwrap();
        let (_, out) = rewritten("text/html", "deflate", body).await;
        text.clear();
        flate2::read::ZlibDecoder::new(out.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, changed);

        let mut body = Vec::new();
        DeflateEncoder::new(&mut body, Compression::default()).write_all(page.as_bytes()).unwrap();
        let (_, out) = rewritten("text/html", "deflate", body).await;
        text.clear();
        flate2::read::DeflateDecoder::new(out.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, changed);
    }

    #[tokio::test]
    async fn other_answers_stay_as_they_are() {
        for (media, encoding) in [("text/plain", ""), ("text/html", "br"), ("application/xhtml+xml", "")] {
            assert_eq!(rewritten(media, encoding, PAGE.into()).await, (true, PAGE.into()), "{media} {encoding}");
        }
    }

    #[tokio::test]
    async fn what_is_no_gzip_breaks_off() {
        let response = html(answer("text/html", "gzip", PAGE.into()), through());
        assert!(response.into_body().collect().await.is_err());
    }

    #[tokio::test]
    async fn a_page_that_grows_a_thousandfold_passes_in_small_pieces() {
        let mut body = Vec::new();
        let mut encoder = GzEncoder::new(&mut body, Compression::best());
        for _ in 0..(32 << 20) / 1024 {
            encoder.write_all(&[b' '; 1024]).unwrap();
        }
        encoder.finish().unwrap();
        let mut rewriting = html(answer("text/html", "gzip", body), through()).into_body();
        let mut largest = 0;
        while let Some(frame) = rewriting.frame().await {
            largest = largest.max(frame.unwrap().into_data().unwrap().len());
        }
        assert!(largest < 1 << 20, "{largest}");
    }

    /// Polls an answer to its end; returns how often the task yielded, and the content.
    fn turns(mut body: Body) -> (usize, Vec<u8>) {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let (mut turns, mut came) = (0, Vec::new());
        loop {
            match std::pin::Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Pending => turns += 1,
                Poll::Ready(Some(frame)) => came.extend_from_slice(&frame.unwrap().into_data().unwrap()),
                Poll::Ready(None) => return (turns, came),
            }
        }
    }

    #[test]
    fn a_page_lets_others_have_a_turn_by_what_it_decompresses_to() {
        let size = 16 << 20;
        let least = size / (YIELD_AFTER_BYTES as usize + (64 << 10));
        for text in [" ", "<a ", "&"] {
            let page = text.repeat(size / text.len());
            let (turned, _) = turns(html(answer("text/html", "", page.clone().into()), through()).into_body());
            assert!(turned >= least, "{text} {turned}");

            let (mut gzip, mut zlib) = (Vec::new(), Vec::new());
            GzEncoder::new(&mut gzip, Compression::best()).write_all(page.as_bytes()).unwrap();
            ZlibEncoder::new(&mut zlib, Compression::best()).write_all(page.as_bytes()).unwrap();
            assert!(gzip.len() < size / 500);
            for (encoding, body) in [("gzip", gzip), ("deflate", zlib)] {
                let (turned, came) = turns(html(answer("text/html", encoding, body), through()).into_body());
                assert!(turned >= least, "{text} {encoding} {turned}");
                let mut whole = Vec::new();
                match encoding {
                    "gzip" => flate2::read::MultiGzDecoder::new(came.as_slice()).read_to_end(&mut whole).unwrap(),
                    _ => flate2::read::ZlibDecoder::new(came.as_slice()).read_to_end(&mut whole).unwrap(),
                };
                assert!(whole == page.as_bytes(), "{text} {encoding}");
            }
        }
    }
}

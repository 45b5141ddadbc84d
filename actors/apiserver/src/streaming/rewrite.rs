//! Rewrites HTML answers on their way through a proxy, compressed or not, piece by piece: memory holds neither the whole answer nor the whole of what it
//! decompresses to.

use std::io::{self, Write};

use bytes::{Buf as _, Bytes};
use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder, GzEncoder, MultiGzDecoder, ZlibDecoder, ZlibEncoder};
use futures::stream;
use http::{Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use super::html::Rewriter;
use super::links::Through;
use crate::http::{Body, BodyError};

/// How many compressed bytes are taken in one step: deflate expands them at most about a thousandfold.
const STEP: usize = 4 << 10;

/// The answer with its links rewritten, if it is HTML in an encoding that is known; else as it is.
pub(super) fn html(response: Response<Body>, through: Through) -> Response<Body> {
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let media = text(header::CONTENT_TYPE).split(';').next().unwrap_or("").trim();
    if !media.eq_ignore_ascii_case("text/html") {
        return response;
    }
    let pipe = match text(header::CONTENT_ENCODING) {
        "" => Pipe::Plain(Rewriter::new(Vec::new(), through)),
        "gzip" => {
            let encoder = GzEncoder::new(Vec::new(), Compression::default());
            Pipe::Gzip(Box::new(MultiGzDecoder::new(Rewriter::new(encoder, through))))
        }
        "deflate" => Pipe::Unknown(through),
        encoding => {
            tracing::debug!(encoding, "links of an answer are not rewritten: its encoding is not known");
            return response;
        }
    };
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let begun = Passing { body, rest: Bytes::new(), pipe: Some(pipe) };
    let frames = stream::unfold(begun, |mut passing| async move {
        let next = passing.next().await?;
        Some((next.map(Frame::data), passing))
    });
    Response::from_parts(parts, StreamBody::new(frames).boxed_unsync())
}

/// What an answer goes through.
enum Pipe {
    Plain(Rewriter<Vec<u8>>),
    Gzip(Box<MultiGzDecoder<Rewriter<GzEncoder<Vec<u8>>>>>),
    /// `deflate`: zlib by the standard, but upstream and some servers send bare deflate; the first byte tells which one.
    Unknown(Through),
    Zlib(Box<ZlibDecoder<Rewriter<ZlibEncoder<Vec<u8>>>>>),
    Deflate(Box<DeflateDecoder<Rewriter<DeflateEncoder<Vec<u8>>>>>),
}

impl Pipe {
    /// Takes a part, and gives what came out.
    fn write(self, part: &[u8]) -> io::Result<(Self, Vec<u8>)> {
        let mut pipe = match self {
            // Method 8 with a window of 32 KiB; a bare stream would begin with a block that its writer left uncompressed and padded.
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
        let out = match &mut pipe {
            Self::Plain(rewriter) => {
                rewriter.write_all(part)?;
                rewriter.get_mut()
            }
            Self::Gzip(decoder) => {
                decoder.write_all(part)?;
                decoder.get_mut().get_mut().get_mut()
            }
            Self::Zlib(decoder) => {
                decoder.write_all(part)?;
                decoder.get_mut().get_mut().get_mut()
            }
            Self::Deflate(decoder) => {
                decoder.write_all(part)?;
                decoder.get_mut().get_mut().get_mut()
            }
            Self::Unknown(_) => return Err(io::Error::other("an encoding that has not been told")),
        };
        let out = std::mem::take(out);
        Ok((pipe, out))
    }

    /// What is left.
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

/// An answer that passes.
struct Passing {
    body: Body,
    /// What has come and has not been taken yet.
    rest: Bytes,
    /// `None` at the end.
    pipe: Option<Pipe>,
}

impl Passing {
    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            let pipe = self.pipe.take()?;
            while self.rest.is_empty() {
                match self.body.frame().await {
                    None => return end(pipe.finish()),
                    Some(Err(error)) => return Some(Err(error)),
                    Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                }
            }
            let length = self.rest.len().min(STEP);
            let written = pipe.write(self.rest.get(..length).unwrap_or_default());
            self.rest.advance(length);
            let (pipe, out) = match written {
                Ok(written) => written,
                Err(error) => return end(Err(error)),
            };
            self.pipe = Some(pipe);
            if !out.is_empty() {
                return Some(Ok(out.into()));
            }
            // A few bytes may expand to many, so other tasks get a turn in between.
            tokio::task::yield_now().await;
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

    use super::*;
    use crate::http::full;

    fn through() -> Through {
        Through { prefix: "/p".to_owned(), backend: "b:80".to_owned(), called: "c".to_owned() }
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
        let mut passing = html(answer("text/html", "gzip", body), through()).into_body();
        let mut largest = 0;
        while let Some(frame) = passing.frame().await {
            largest = largest.max(frame.unwrap().into_data().unwrap().len());
        }
        assert!(largest < 1 << 20, "{largest}");
    }
}

//! OpenAPI documents in compressed form, since clients rarely ask for them.

use std::io::{Read as _, Write as _};

use bytes::{Buf as _, Bytes};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures::stream;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use sha2::{Digest, Sha512};

use crate::http::{Body, BodyError, full, text};

/// Number of bytes that are decompressed at a time at most.
const PART_BYTES: usize = 32 << 10;

/// A compressed document with its hash.
pub(super) struct Stored {
    packed: Bytes,
    size: usize,
    /// SHA-512 in upper-case hex.
    pub(super) hash: String,
}

impl Stored {
    /// Compresses a document.
    pub(super) fn new(document: &[u8]) -> Self {
        let hash = Sha512::digest(document).iter().fold(String::with_capacity(128), |mut text, byte| {
            use std::fmt::Write as _;
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02X}");
            text
        });
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        // Writing into memory cannot fail.
        let _ = packer.write_all(document);
        let packed = Bytes::from(packer.finish().unwrap_or_default());
        Self { packed, size: document.len(), hash }
    }

    /// Decompresses the document while the client reads it. Every authenticated user may ask for it, thousands of times at once: whole documents of
    /// megabytes for each would be too much memory, and each at once too much work between two awaits.
    pub(super) fn unpack(&self) -> Body {
        let mut unpacker = GzDecoder::new(self.packed.clone().reader());
        let parts = std::iter::from_fn(move || {
            let mut part = vec![0; PART_BYTES];
            // Decompressing our own output cannot fail.
            let length = unpacker.read(&mut part).unwrap_or(0);
            part.truncate(length);
            (!part.is_empty()).then(|| Ok::<_, BodyError>(Frame::data(part.into())))
        });
        StreamBody::new(stream::iter(parts)).boxed_unsync()
    }

    /// Answers with the document, or with 304 for a client that has it already.
    pub(super) fn answer(&self, request: &HeaderMap, content_type: &'static str) -> Response<Body> {
        let text = |name| request.get(name).and_then(|v| v.to_str().ok()).unwrap_or("");
        let known = text(header::IF_NONE_MATCH).contains(&self.hash);
        let gzip = text(header::ACCEPT_ENCODING).split(',').any(|coding| coding.trim() == "gzip");
        let (code, body) = match (known, gzip) {
            (true, _) => (StatusCode::NOT_MODIFIED, full(Bytes::new())),
            (false, true) => (StatusCode::OK, full(self.packed.clone())),
            (false, false) => (StatusCode::OK, self.unpack()),
        };
        let mut response = text::reply(code, content_type, Bytes::new()).map(|_| body);
        let headers = response.headers_mut();
        if !gzip && !known {
            headers.insert(header::CONTENT_LENGTH, self.size.into());
        }
        if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", self.hash)) {
            headers.insert(header::ETAG, tag);
        }
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
        if gzip && !known {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

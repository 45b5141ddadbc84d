//! OpenAPI documents in compressed form, since clients rarely ask for them.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use sha2::{Digest, Sha512};

use crate::http::{Body, text};

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

    /// Decompresses the document.
    pub(super) fn unpack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size);
        // Decompressing our own output cannot fail.
        let _ = GzDecoder::new(self.packed.as_ref()).read_to_end(&mut out);
        out
    }

    /// Answers with the document, or with 304 for a client that has it already.
    pub(super) fn answer(&self, request: &HeaderMap, content_type: &'static str) -> Response<Body> {
        let text = |name| request.get(name).and_then(|v| v.to_str().ok()).unwrap_or("");
        let known = text(header::IF_NONE_MATCH).contains(&self.hash);
        let gzip = text(header::ACCEPT_ENCODING).split(',').any(|coding| coding.trim() == "gzip");
        let (code, body) = match (known, gzip) {
            (true, _) => (StatusCode::NOT_MODIFIED, Bytes::new()),
            (false, true) => (StatusCode::OK, self.packed.clone()),
            (false, false) => (StatusCode::OK, self.unpack().into()),
        };
        let mut response = text::reply(code, content_type, body);
        let headers = response.headers_mut();
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

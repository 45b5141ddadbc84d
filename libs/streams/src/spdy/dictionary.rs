//! The preset dictionary of header blocks (SPDY draft 3, 2.6.10.1).

use std::sync::LazyLock;

/// The dictionary's words, each preceded by its length.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow \
    authorization cache-control connection content-base content-encoding content-language content-length content-location content-md5 \
    content-range content-type date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since \
    last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer \
    transfer-encoding upgrade user-agent vary via warning www-authenticate method get status";
/// Further words; a list because the first contains a space.
const MORE_WORDS: [&str; 8] = ["200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"];
/// The end of the dictionary, without lengths.
const TAIL: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found\
    500 Internal Server Error501 Not Implemented503 Service Unavailable\
    Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
    chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,public\
    privatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// The dictionary's bytes.
pub(super) static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut out = Vec::with_capacity(1423);
    for word in WORDS.split(' ').chain(MORE_WORDS) {
        out.extend_from_slice(&u32::try_from(word.len()).unwrap_or(0).to_be_bytes());
        out.extend_from_slice(word.as_bytes());
    }
    out.extend_from_slice(TAIL.as_bytes());
    out
});

//! Removes what may be secret from texts for spans: user names and passwords in URLs and image names, and queries, which hold signatures and tokens.

use crate::configs::image_name::is_digest;

/// Returns an image's name without scheme, credentials and query. An `@` that does not begin a digest ends credentials, also where the name is no valid reference.
pub(crate) fn image_name(written: &str) -> String {
    let without_scheme = written.split_once("://").map_or(written, |(_, rest)| rest);
    let (head, digest) = match without_scheme.rsplit_once('@') {
        Some((head, digest)) if is_digest(digest) => (head, Some(digest)),
        _ => (without_scheme, None),
    };
    let name = head.rsplit_once('@').map_or(head, |(_, name)| name);
    let name = name.split_once('?').map_or(name, |(name, _)| name);
    digest.map_or_else(|| name.to_owned(), |digest| format!("{name}@{digest}"))
}

/// Returns a text without credentials and queries in its URLs.
pub(crate) fn without_queries(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, url)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let end =
            url.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>')).unwrap_or(url.len());
        let (url, after) = url.split_at(end);
        let path = url.find('?').map_or(url, |query| url.get(..query).unwrap_or(url));
        let host_end = path.find('/').unwrap_or(path.len());
        let host = path.get(..host_end).and_then(|host| host.rfind('@')).map_or(0, |at| at + 1);
        clean.push_str(path.get(host..).unwrap_or_default());
        // A colon after a URL belongs to the sentence, also where the URL's query is cut off.
        if url.len() > path.len() && url.ends_with(':') {
            clean.push(':');
        }
        rest = after;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_names_keep_digests_and_lose_credentials() {
        let cases = [
            ("nginx:1", "nginx:1"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
            ("busybox@DIGEST", "busybox@DIGEST"),
            ("localhost:5000/a/b@DIGEST", "localhost:5000/a/b@DIGEST"),
            ("me:secret@localhost:5000/a/b", "localhost:5000/a/b"),
            ("me:secret@localhost:5000", "localhost:5000"),
            ("me:secret@nginx", "nginx"),
            ("me:pa/ss@host/a", "host/a"),
            ("me:pa/ss@host/a@DIGEST", "host/a@DIGEST"),
            ("https://me:s@cret@localhost/a@DIGEST", "localhost/a@DIGEST"),
            ("https://me:pa?ss@host/a?sig=secret", "host/a"),
            ("", ""),
        ];
        let digest = format!("sha256:{}", "0f".repeat(32));
        for (written, shown) in cases.map(|(written, shown)| (written, shown.replace("DIGEST", &digest))) {
            assert_eq!(image_name(&written.replace("DIGEST", &digest)), shown, "{written}");
        }
    }

    #[test]
    fn urls_in_texts_lose_credentials_and_queries() {
        let cases = [
            ("no such image", "no such image"),
            (
                "Get \"https://me:secret@auth.example/token?account=me&sig=secret\": denied",
                "Get \"https://auth.example/token\": denied",
            ),
            ("from http://a/b?x=secret: EOF, then https://c?y=secret", "from http://a/b: EOF, then https://c"),
            ("://", "://"),
        ];
        for (text, clean) in cases {
            assert_eq!(without_queries(text), clean);
        }
    }
}

//! Removes what may be secret from texts for spans: user names and passwords in URLs and image names, and queries, which hold signatures and tokens.

/// Returns an image's name without credentials.
pub(crate) fn image_name(written: &str) -> &str {
    let without_scheme = written.split_once("://").map_or(written, |(_, rest)| rest);
    let Some((host, _)) = without_scheme.split_once('/') else { return without_scheme };
    // An `@` behind the first slash begins a digest.
    host.rfind('@').and_then(|at| without_scheme.get(at + 1..)).unwrap_or(without_scheme)
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
            ("busybox@sha256:00ff", "busybox@sha256:00ff"),
            ("localhost:5000/a/b@sha256:00ff", "localhost:5000/a/b@sha256:00ff"),
            ("me:secret@localhost:5000/a/b", "localhost:5000/a/b"),
            ("https://me:s@cret@localhost/a@sha256:00ff", "localhost/a@sha256:00ff"),
        ];
        for (written, shown) in cases {
            assert_eq!(image_name(written), shown, "{written}");
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

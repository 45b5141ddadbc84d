//! Rewrites links in the answers of a proxied server so that they lead through the proxy (upstream: `proxy.Transport`).

/// The addresses that the rewriting of links depends on.
#[derive(Clone, Debug)]
pub(super) struct ProxyAddresses {
    /// Path prefix of the proxy, without a trailing slash.
    pub(super) prefix: String,
    /// Host and port of the proxied server.
    pub(super) backend: String,
    /// Host and port that the client called.
    pub(super) called: String,
}

/// The parts of a link.
struct Parts<'a> {
    scheme: &'a str,
    host: &'a str,
    path: &'a str,
    /// Query and fragment, with their delimiters.
    rest: &'a str,
}

impl ProxyAddresses {
    /// Returns the link to write instead of `link`; `None` when the link stays unchanged because it is relative or leads to another host.
    pub(super) fn link(&self, link: &str) -> Option<String> {
        let Parts { scheme, host, path, rest } = Parts::of(link)?;
        if !path.starts_with('/') || !(host.is_empty() || host == self.called || self.is_backend(host)) {
            return None;
        }
        // A link with the host that the client called keeps that host; any other one becomes a path.
        let before = match host {
            "" => String::new(),
            host if host != self.called => String::new(),
            host if scheme.is_empty() => format!("//{host}"),
            host => format!("{scheme}://{host}"),
        };
        let path = if path.starts_with(&self.prefix) { path.to_owned() } else { joined(&self.prefix, path) };
        Some(format!("{before}{path}{rest}")).filter(|changed| changed != link)
    }

    /// Whether a host names the proxied server; the default port of the scheme may be omitted.
    fn is_backend(&self, host: &str) -> bool {
        [":80", ":443"].iter().any(|port| self.backend.strip_suffix(port) == Some(host)) || host == self.backend
    }
}

impl<'a> Parts<'a> {
    /// Splits a link into its parts; `None` for a text that is not a link, or a link of a form that is never rewritten.
    fn of(link: &'a str) -> Option<Self> {
        if link.bytes().any(|byte| byte.is_ascii_control()) {
            return None;
        }
        let (scheme, after) = match link.split_once(':') {
            Some((scheme, after)) if is_scheme(scheme) => (scheme, after),
            _ => ("", link),
        };
        let (host, after) = match after.strip_prefix("//") {
            Some(after) => after.split_at(after.find(['/', '?', '#']).unwrap_or(after.len())),
            None => ("", after),
        };
        if host.contains('@') {
            return None;
        }
        let (path, rest) = after.split_at(after.find(['?', '#']).unwrap_or(after.len()));
        Some(Self { scheme, host, path, rest })
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Joins a prefix and a path without empty and dot segments (Go: `path.Join`); a trailing slash stays.
fn joined(prefix: &str, path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in prefix.split('/').chain(path.split('/')) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let end = if path.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_the_same_server_lead_through_the_proxy() {
        let prefix = "/api/v1/namespaces/x/services/y/proxy";
        let through = ProxyAddresses {
            prefix: prefix.to_owned(),
            backend: "10.1.2.3:80".to_owned(),
            called: "cluster.example:6443".to_owned(),
        };
        for (link, expected) in [
            ("/", format!("{prefix}/")),
            ("/a/b", format!("{prefix}/a/b")),
            ("/a//b/./c/", format!("{prefix}/a/b/c/")),
            ("/a?q=/b#/c", format!("{prefix}/a?q=/b#/c")),
            ("/a%2Fb", format!("{prefix}/a%2Fb")),
            ("http://10.1.2.3:80/a", format!("{prefix}/a")),
            ("http://10.1.2.3/a", format!("{prefix}/a")),
            ("//10.1.2.3:80/a", format!("{prefix}/a")),
            ("http://10.1.2.3:80/api/v1/namespaces/x/services/y/proxy/a", format!("{prefix}/a")),
            ("https://cluster.example:6443/a", format!("https://cluster.example:6443{prefix}/a")),
        ] {
            assert_eq!(through.link(link), Some(expected), "{link}");
        }
        let same = format!("{prefix}/a");
        for link in [
            &same,
            "",
            "a/b",
            "./a",
            "../a",
            "#top",
            "?q=1",
            "https://elsewhere.example/a",
            "//elsewhere.example/a",
            "http://10.1.2.3:8080/a",
            "http://10.1.2.3:80",
            "mailto:a@example.com",
            "javascript:f('/a')",
            "data:text/plain,/a",
            "http://user@10.1.2.3:80/a",
            " /a",
            "/a\nb",
        ] {
            assert_eq!(through.link(link), None, "{link}");
        }
    }
}

//! Detects connections that would cross a network unencrypted.

use std::net::IpAddr;

/// Whether a connection to a server, `scheme://host:port`, is unencrypted and leaves this host. `secured` is the scheme for TLS.
#[must_use]
pub fn in_the_clear(server: &str, secured: &str) -> bool {
    let (scheme, rest) = server.split_once("://").unwrap_or(("", server));
    if scheme.eq_ignore_ascii_case(secured) {
        return false;
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(host, _)| host),
        None => authority.split_once(':').map_or(authority, |(host, _)| host),
    };
    let loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    !loopback && !host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::in_the_clear;

    #[test]
    fn what_leaves_the_host_without_tls_is_known() {
        for server in [
            "http://127.0.0.1:2379",
            "http://localhost:2379",
            "http://[::1]:2379",
            "https://etcd:2379",
            "HTTPS://etcd",
            "http://[::ffff:127.0.0.1]:1",
            "127.0.0.1:2379",
        ] {
            assert!(!in_the_clear(server, "https"), "{server}");
        }
        for server in [
            "http://etcd-0:2379",
            "http://10.0.0.1:2379",
            "HTTP://etcd",
            "etcd:2379",
            "http://localhost.example.org:1",
            "http://127.0.0.1@etcd:2379",
            "http://[2001:db8::1]:2379",
        ] {
            assert!(in_the_clear(server, "https"), "{server}");
        }
        assert!(in_the_clear("nats://nats:4222", "tls") && !in_the_clear("tls://nats:4222", "tls"));
    }
}

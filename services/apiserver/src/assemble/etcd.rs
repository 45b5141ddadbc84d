//! The log in etcd, as its flags say.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use oarlock_storage::Log;
use oarlock_storage::etcd::{EtcdLog, Options};

use crate::args::EtcdOptions;

/// Reaches the cluster.
///
/// # Errors
/// When a file cannot be read, or the cluster cannot be used.
pub(super) async fn open(flags: &EtcdOptions) -> anyhow::Result<Arc<dyn Log>> {
    for server in flags.etcd_servers.iter().filter(|server| is_open(server)) {
        tracing::warn!(
            server,
            "etcd is reached without TLS over a network: whoever is on the way reads and writes everything; use https://, --etcd-cafile, --etcd-certfile and --etcd-keyfile"
        );
    }
    let password = flags.etcd_password_file.as_deref().map(text).transpose()?;
    let options = Options {
        endpoints: flags.etcd_servers.clone(),
        prefix: flags.etcd_prefix.clone(),
        resources: oarlock_registry::key::prefixes().map(str::to_owned).collect(),
        authorities: flags.etcd_cafile.as_deref().map(file).transpose()?,
        identity: match (&flags.etcd_certfile, &flags.etcd_keyfile) {
            (Some(certificate), Some(key)) => Some((file(certificate)?, file(key)?)),
            _ => None,
        },
        credentials: flags.etcd_user.clone().zip(password),
    };
    let log =
        EtcdLog::open(&options).await.with_context(|| format!("--etcd-servers {}", flags.etcd_servers.join(",")))?;
    Ok(Arc::new(log))
}

/// Whether a server is called in the clear, and not on this very host.
fn is_open(server: &str) -> bool {
    let Some((scheme, rest)) = server.split_once("://") else { return true };
    if scheme.eq_ignore_ascii_case("https") {
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

fn file(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| path.display().to_string())
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::is_open;

    #[test]
    fn etcd_in_the_clear_on_another_host_is_worth_a_warning() {
        for server in [
            "http://127.0.0.1:2379",
            "http://localhost:2379",
            "http://[::1]:2379",
            "https://etcd:2379",
            "http://[::ffff:127.0.0.1]:1",
        ] {
            assert!(!is_open(server), "{server}");
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
            assert!(is_open(server), "{server}");
        }
    }
}

//! The sockets of the tunnel's server, with their certificates.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use oarlock_pki::tls::{self, ServingCertificate};
use oarlock_seeded_bug::seeded_bug;
use oarlock_serving::listener::Socket;
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

use crate::args::Args;

/// Port on which API servers connect unless a flag names another one (upstream's default).
const SERVER_PORT: u16 = 8090;

/// Binds the socket of API servers.
///
/// # Errors
/// When flags contradict one another, a file is unusable, or the address is taken.
pub(crate) async fn frontends(args: &Args) -> anyhow::Result<Socket> {
    if let Some(path) = &args.uds_name {
        let port = args.server_port.unwrap_or(0);
        ensure!(port == 0, "--server-port {port}: must be 0 or left out, because API servers connect at --uds-name");
        let bound = unix(path, args.delete_existing_uds_file);
        return bound.map(Socket::Unix).with_context(|| format!("--uds-name {}", path.display()));
    }
    let port = args.server_port.unwrap_or(SERVER_PORT);
    ensure!(port != 0, "--server-port 0: API servers need a port, or the socket of --uds-name");
    let (Some(certificate), Some(key), Some(clients)) = (&args.server_cert, &args.server_key, &args.server_ca_cert)
    else {
        bail!(
            "--server-port {port}: needs --server-cert, --server-key and --server-ca-cert, because whoever connects may \
             dial every destination (without certificates: --uds-name)"
        );
    };
    let tls = acceptor((certificate, key), Some(clients)).context("--server-cert, --server-key, --server-ca-cert")?;
    let address = args.server_bind_address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    Ok(Socket::Tcp(tcp("--server-port", address, port).await?, Some(tls)))
}

/// Binds the socket of agents.
///
/// # Errors
/// When a file is unusable, or the address is taken.
pub(crate) async fn agents(args: &Args) -> anyhow::Result<(TcpListener, TlsAcceptor)> {
    let files = (args.cluster_cert.as_path(), args.cluster_key.as_path());
    let tls = acceptor(files, args.cluster_ca_cert.as_deref());
    let tls = tls.context("--cluster-cert, --cluster-key, --cluster-ca-cert")?;
    Ok((tcp("--agent-port", args.agent_bind_address, args.agent_port).await?, tls))
}

pub(crate) async fn tcp(flag: &str, address: IpAddr, port: u16) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::new(address, port);
    TcpListener::bind(address).await.with_context(|| format!("{flag} {port}: {address}"))
}

/// Returns the TLS side of a socket. With `clients` a client must have a certificate of these authorities.
pub(crate) fn acceptor((certificate, key): (&Path, &Path), clients: Option<&Path>) -> anyhow::Result<TlsAcceptor> {
    let certificate = ServingCertificate::read(certificate, key)?;
    let clients = clients.map(|file| oarlock_serving::tls::clients(Some(file), None)).transpose()?.flatten();
    let config = match &clients {
        Some(clients) if !seeded_bug!("anybody_dials_through_the_tunnel") => {
            tls::mutual_server_config(certificate, clients)?
        }
        _ => tls::server_config(certificate, None)?,
    };
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Binds a Unix socket. A socket that an earlier server has left is deleted if `delete` is set.
fn unix(path: &Path, delete: bool) -> anyhow::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => bail!("the file is there and is no socket"),
        Ok(_) if !delete => bail!("the socket is there already, and --delete-existing-uds-file is false"),
        Ok(_) => std::fs::remove_file(path)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    Ok(UnixListener::bind(path)?)
}

#[cfg(test)]
mod tests {
    use oarlock_pki::tls::ServerTrust;
    use oarlock_pki::{Authority, Leaf, San, Subject, UnixTime};
    use tokio_rustls::TlsConnector;

    use super::*;

    #[tokio::test]
    async fn a_socket_with_authorities_admits_only_clients_with_their_certificates() {
        let (folder, now) = (tempfile::tempdir().unwrap(), UnixTime::now());
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let [own, other] = [(); 2].map(|()| Authority::create("tunnel", now).unwrap());
        let server = own.issue(&Leaf::server(Subject::named("s"), vec![San::parse("localhost")]), now).unwrap();
        let (certificate, key) = (file("s.crt", &server.certificate_pem()), file("s.key", &server.key.to_pem()));
        let clients = file("ca.crt", &own.certificate_pem());
        let acceptor = acceptor((&certificate, &key), Some(&clients)).unwrap();
        for (authority, is_admitted) in [(Some(&own), true), (Some(&other), false), (None, false)] {
            let identity = authority.map(|authority| authority.issue(&Leaf::client(Subject::named("c")), now).unwrap());
            let identity = identity.map(|issued| (vec![issued.certificate.clone()], issued.key.to_rustls()));
            let config = tls::client_config(ServerTrust::Anybody, identity).unwrap();
            let (near, far) = tokio::io::duplex(1 << 16);
            let connecting = TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), near);
            // With TLS 1.3 a client learns of a refusal only when it reads.
            let (accepted, _) = futures::join!(acceptor.accept(far), connecting);
            assert_eq!(accepted.is_ok(), is_admitted, "{accepted:?}");
        }
    }

    fn text(bound: anyhow::Result<UnixListener>) -> String {
        bound.err().map_or_else(String::new, |error| error.to_string())
    }

    #[tokio::test]
    async fn only_a_socket_is_deleted_and_only_if_the_flag_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("uds");
        drop(unix(&path, true).unwrap());
        assert!(text(unix(&path, false)).contains("--delete-existing-uds-file is false"));
        drop(unix(&path, true).unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "state").unwrap();
        assert!(text(unix(&path, true)).contains("no socket"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "state");
        assert!(unix(&folder.path().join("none/uds"), true).is_err());
    }
}

//! The way to the tunnel's other servers, and the socket for them, with their certificates.

use std::path::Path;

use anyhow::{Context, ensure};
use oarlock_konnectivity::{Peers, SERVER_USER};
use oarlock_pki::tls::{ServerTrust, client_config};
use oarlock_pki::{CertificateDer, Presented, PrivateKeyDer, parse_chain};
use rustls_pki_types::pem::PemObject as _;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::args::Args;
use crate::sockets::{acceptor, tcp};

/// The flags with the certificates between servers, as errors name them.
const FLAGS: &str = "--peer-cert, --peer-key, --peer-ca-cert";

/// The files of the certificates between servers.
struct Files<'a> {
    certificate: &'a Path,
    key: &'a Path,
    authorities: &'a Path,
}

/// Returns the files. The flags that use them require all three.
fn files(args: &Args) -> anyhow::Result<Files<'_>> {
    let (Some(certificate), Some(key), Some(authorities)) = (&args.peer_cert, &args.peer_key, &args.peer_ca_cert)
    else {
        anyhow::bail!("{FLAGS}: all three are needed");
    };
    Ok(Files { certificate, key, authorities })
}

/// Returns the servers that dials are forwarded to.
///
/// # Errors
/// When a file is unusable, or the certificate is not one of a tunnel server.
pub(crate) fn servers(args: &Args) -> anyhow::Result<Option<Peers>> {
    if args.peer_servers.is_empty() {
        return Ok(None);
    }
    let Files { certificate, key, authorities } = files(args)?;
    let config = || {
        let chain = certificates(certificate)?;
        check_user(certificate, &chain)?;
        let private = PrivateKeyDer::from_pem_slice(oarlock_pki::read(key)?.as_bytes());
        let private = private.with_context(|| key.display().to_string())?;
        let trust = ServerTrust::Authorities(certificates(authorities)?);
        client_config(trust, Some((chain, private)))
            .with_context(|| format!("{}, {}, {}", certificate.display(), key.display(), authorities.display()))
    };
    let servers = Peers::new(args.peer_servers.clone(), config().context(FLAGS)?);
    servers.context("--peer-servers").map(Some)
}

/// Binds the socket on which other servers forward dials.
///
/// # Errors
/// When a file is unusable, or the address is taken.
pub(crate) async fn socket(args: &Args) -> anyhow::Result<Option<(TcpListener, TlsAcceptor)>> {
    let Some(port) = args.peer_port else { return Ok(None) };
    let Files { certificate, key, authorities } = files(args)?;
    let tls = acceptor((certificate, key), Some(authorities)).context(FLAGS)?;
    Ok(Some((tcp("--peer-port", args.peer_bind_address, port).await?, tls)))
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    Ok(parse_chain(&oarlock_pki::read(file)?).map_err(|error| error.in_file(file))?)
}

/// Checks that the server's own certificate is one of a tunnel server: no other server would take a dial from it.
fn check_user(file: &Path, chain: &[CertificateDer<'_>]) -> anyhow::Result<()> {
    let leaf = chain.first().with_context(|| format!("{}: no certificate", file.display()))?;
    let presented = Presented::parse(leaf).map_err(|error| error.in_file(file))?;
    let user = presented.subject.common_name;
    ensure!(
        user == SERVER_USER,
        "{}: the certificate is one of {user:?}, and must be one of {SERVER_USER:?}",
        file.display()
    );
    Ok(())
}

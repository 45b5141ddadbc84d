//! Loads a server's certificate and the authorities of client certificates, as the flags say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oarlock_config::{SecureServingOptions, ServerTrust};
use oarlock_pki::tls::ServingCertificate;
use oarlock_pki::{ClientTrust, Error, Issued, Leaf, San, Subject, UnixTime, parse_chain};
use oarlock_runtime::clock;

/// Returns the authorities of client certificates: those of the file, else those that the client trusts for the API server.
///
/// # Errors
/// When the file cannot be read or has no certificate.
pub fn clients(file: Option<&Path>, trust: Option<&ServerTrust>) -> Result<Option<ClientTrust>, Error> {
    let (pem, path) = match (file, trust) {
        (Some(file), _) => (oarlock_pki::read(file)?, file),
        (None, Some(ServerTrust::Authorities(pem))) => (pem.clone(), Path::new("certificate-authority-data")),
        // Public or disabled server verification says nothing about clients: only tokens authenticate.
        (None, _) => return Ok(None),
    };
    let trust = parse_chain(&pem).and_then(|chain| ClientTrust::new(&chain));
    trust.map(Some).map_err(|error| error.in_file(path))
}

/// Reads the certificate that the flags name, or generates a self-signed one for `name`, kept in memory only.
///
/// # Errors
/// When the files cannot be read, or do not hold a key and its certificate.
pub(crate) fn certificate(options: &SecureServingOptions, name: &str) -> Result<Arc<ServingCertificate>, Error> {
    if let (Some(certificate), Some(key)) = (&options.tls_cert_file, &options.tls_private_key_file) {
        return ServingCertificate::read(certificate, key);
    }
    let mut sans = vec![San::Dns("localhost".to_owned())];
    let addresses = [options.bind_address, Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    sans.extend(addresses.into_iter().filter(|ip: &IpAddr| !ip.is_unspecified()).map(San::Ip));
    sans.extend(oarlock_config::host_name().ok().map(San::Dns));
    sans.sort();
    sans.dedup();
    let now = u64::try_from(clock::wall().as_second()).unwrap_or(0);
    let leaf = Leaf::server(Subject::named(name), sans);
    let (issued, _) = Issued::of_its_own(&leaf, UnixTime::since_unix_epoch(Duration::from_secs(now)))?;
    ServingCertificate::new(&issued)
}

//! TLS handshakes in memory: which certificates a server accepts and which not.

use std::sync::Arc;

use rustls::{ClientConnection, ServerConnection};

use super::{NOW, at, authority};
use crate::tls::{ServerTrust, ServingCertificate, client_config, mutual_server_config, server_config};
use crate::*;

/// Real time, because rustls checks the server's certificate against its own clock.
fn real_now() -> UnixTime {
    UnixTime::now()
}

/// Runs a handshake; returns the certificates that the server received, or the error.
fn handshake(
    server: &Arc<rustls::ServerConfig>,
    client: rustls::ClientConfig,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut server = ServerConnection::new(server.clone()).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), "localhost".try_into().unwrap()).unwrap();
    for _ in 0..10 {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets().map_err(|e| format!("server: {e}"))?;
        let mut wire = Vec::new();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut wire.as_slice()).unwrap();
        client.process_new_packets().map_err(|e| format!("client: {e}"))?;
        if !client.is_handshaking() && !server.is_handshaking() {
            assert_eq!(server.alpn_protocol(), Some(b"h2".as_slice()));
            return Ok(server.peer_certificates().unwrap_or_default().iter().map(|c| c.clone().into_owned()).collect());
        }
    }
    Err("the handshake does not end".to_owned())
}

fn identity(issued: &Issued) -> Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    Some((vec![issued.certificate.clone()], issued.key.to_rustls()))
}

#[test]
fn any_client_certificate_passes_tls_and_only_the_own_authoritys_is_believed() {
    let ca = Authority::create("kubernetes", real_now()).unwrap();
    let names = serving_sans("cluster.local", &[], &[]);
    let serving = ca.issue(&Leaf::server(Subject::named("kube-apiserver"), names), real_now()).unwrap();
    let trust = ClientTrust::new([ca.certificate()]).unwrap();
    let server = Arc::new(server_config(ServingCertificate::new(&serving).unwrap(), Some(&trust)).unwrap());
    let believed = || ServerTrust::Authorities(vec![ca.certificate().clone()]);

    let own = ca.issue(&Leaf::client(Subject::named("alice")), real_now()).unwrap();
    let chain = handshake(&server, client_config(believed(), identity(&own)).unwrap()).unwrap();
    assert_eq!(trust.verify(&chain, real_now()).unwrap().subject.common_name, "alice");

    // The same issuer name, so that the client sends the certificate despite the server's list of authorities.
    let foreign = authority().issue(&Leaf::client(Subject::named("mallory")), at(NOW)).unwrap();
    let chain = handshake(&server, client_config(believed(), identity(&foreign)).unwrap()).unwrap();
    assert_eq!(chain.len(), 1);
    assert!(trust.verify(&chain, real_now()).is_err());

    assert_eq!(handshake(&server, client_config(believed(), None).unwrap()).unwrap(), Vec::new());
}

#[test]
fn a_mutual_server_refuses_clients_without_a_certificate_of_its_authorities() {
    let ca = Authority::create("kubernetes", real_now()).unwrap();
    let serving = ca.issue(&Leaf::server(Subject::named("x"), vec![San::parse("localhost")]), real_now()).unwrap();
    let trust = ClientTrust::new([ca.certificate()]).unwrap();
    let server = Arc::new(mutual_server_config(ServingCertificate::new(&serving).unwrap(), &trust).unwrap());
    let client = |identity| handshake(&server, client_config(ServerTrust::Anybody, identity).unwrap());
    let own = ca.issue(&Leaf::client(Subject::named("alice")), real_now()).unwrap();
    assert_eq!(client(identity(&own)).unwrap().as_slice(), std::slice::from_ref(&own.certificate));
    // The same issuer name, so that the client sends the certificate despite the server's list of authorities.
    let foreign = authority().issue(&Leaf::client(Subject::named("mallory")), at(NOW)).unwrap();
    let serving_only = identity(&serving);
    for refused in [None, identity(&foreign), serving_only] {
        assert!(client(refused).unwrap_err().starts_with("server: "));
    }
}

#[test]
fn a_client_refuses_a_server_of_another_authority_unless_told_not_to() {
    let (ca, other) = (Authority::create("a", real_now()).unwrap(), Authority::create("b", real_now()).unwrap());
    let serving = ca.issue(&Leaf::server(Subject::named("x"), vec![San::parse("localhost")]), real_now()).unwrap();
    let server = Arc::new(server_config(ServingCertificate::new(&serving).unwrap(), None).unwrap());
    let trust = ServerTrust::Authorities(vec![other.certificate().clone()]);
    assert!(handshake(&server, client_config(trust, None).unwrap()).unwrap_err().starts_with("client"));
    assert!(handshake(&server, client_config(ServerTrust::Anybody, None).unwrap()).is_ok());
}

#[test]
fn a_server_shows_only_a_certificate_that_belongs_to_its_key() {
    let ca = Authority::create("a", real_now()).unwrap();
    let [one, two] = [(); 2].map(|()| ca.issue(&Leaf::server(Subject::named("x"), Vec::new()), real_now()).unwrap());
    let shown = |chain, key: &Issued| ServingCertificate::from_chain(chain, key.key.to_rustls()).map(drop);
    assert!(shown(vec![one.certificate.clone()], &one).is_ok());
    let why = shown(vec![one.certificate.clone()], &two).unwrap_err().to_string();
    assert_eq!(why, "the certificate does not belong to the key");
    assert_eq!(shown(Vec::new(), &one).unwrap_err().to_string(), "no certificate");
}

#[test]
fn a_replaced_certificate_is_shown_from_the_next_handshake_on() {
    let (old, new) = (Authority::create("a", real_now()).unwrap(), Authority::create("b", real_now()).unwrap());
    let leaf = Leaf::server(Subject::named("x"), vec![San::parse("localhost")]);
    let shown = ServingCertificate::new(&old.issue(&leaf, real_now()).unwrap()).unwrap();
    let server = Arc::new(server_config(shown.clone(), None).unwrap());
    let trust = || ServerTrust::Authorities(vec![new.certificate().clone()]);
    assert!(handshake(&server, client_config(trust(), None).unwrap()).is_err());
    shown.replace(&new.issue(&leaf, real_now()).unwrap()).unwrap();
    assert!(handshake(&server, client_config(trust(), None).unwrap()).is_ok());
}

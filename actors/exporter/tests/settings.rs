//! Settings of an export on the wire: the collector's certificate authorities, and compression.

use std::sync::Arc;

use oarlock_config::{OtlpProtocol, TracingExport};
use oarlock_pki::tls::{ServingCertificate, server_config};
use oarlock_pki::{Authority, Leaf, San, Subject, UnixTime};
use oarlock_testkit::otlp::{Answer, Collector};
use oarlock_testkit::wait;
use tokio::io::{AsyncReadExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::export::{BOTH, push, settings, start, step};

/// Puts TLS, with this certificate, before a collector, until a client refuses the certificate.
async fn secure(listener: TcpListener, tls: TlsAcceptor, collector: &Collector) {
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        let Ok(mut connection) = tls.accept(connection).await else { return };
        let mut behind = TcpStream::connect(collector.address).await.unwrap();
        let _ended = copy_bidirectional(&mut connection, &mut behind).await;
    }
}

fn https(protocol: OtlpProtocol, listener: &TcpListener, authority: &Authority) -> TracingExport {
    let plain = settings(protocol, listener.local_addr().unwrap());
    let endpoint = plain.endpoint.replacen("http", "https", 1);
    TracingExport { endpoint, authorities: Some(authority.certificate_pem()), ..plain }
}

#[tokio::test]
async fn a_collector_is_believed_whose_certificate_the_named_authorities_have_signed_and_no_other() {
    let now = UnixTime::now();
    let (own, foreign) = (Authority::create("own", now).unwrap(), Authority::create("foreign", now).unwrap());
    let leaf = Leaf::server(Subject::named("collector"), vec![San::parse("127.0.0.1")]);
    let certificate = ServingCertificate::new(&own.issue(&leaf, now).unwrap()).unwrap();
    let tls = TlsAcceptor::from(Arc::new(server_config(certificate, None).unwrap()));
    for protocol in BOTH {
        let collector = Collector::start(Answer::Accept).await;
        for (authority, trusted) in [(&foreign, false), (&own, true)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (_system, queue) = start(&https(protocol, &listener, authority)).await;
            push(&queue, step("secured"));
            let arrived = tokio::select! {
                spans = collector.spans_at_least(1) => spans.len(),
                () = secure(listener, tls.clone(), &collector) => 0,
            };
            assert_eq!(arrived, usize::from(trusted), "{protocol:?}");
        }
    }
}

#[tokio::test]
async fn a_compressed_batch_is_gzip_on_the_wire() {
    /// The first bytes of gzip's format with the method deflate (RFC 1952).
    const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
    let has = |received: &[u8], part: &[u8]| received.windows(part.len()).any(|window| window == part);
    for protocol in BOTH {
        for gzip in [true, false] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let wanted = TracingExport { gzip, ..settings(protocol, listener.local_addr().unwrap()) };
            let (_system, queue) = start(&wanted).await;
            push(&queue, step("compressed-or-not"));
            let (mut connection, _) = wait::step("a connection", listener.accept()).await.unwrap();
            let mut received = Vec::new();
            let expected = if gzip { &MAGIC[..] } else { b"compressed-or-not" };
            while !has(&received, expected) {
                let read = wait::step("the batch", connection.read_buf(&mut received)).await.unwrap();
                assert_ne!(read, 0, "{protocol:?}, {gzip}: the batch has ended");
            }
            assert!(!gzip || !has(&received, b"compressed-or-not"), "{protocol:?}");
        }
    }
}

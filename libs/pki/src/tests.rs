//! Tests of the crate's promises, against the libraries that real peers use.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rustls_pki_types::UnixTime;

use crate::*;

fn at(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

const NOW: u64 = 1_800_000_000;
const DAY: u64 = 24 * 3600;

fn authority() -> Authority {
    Authority::create("kubernetes", at(NOW)).unwrap()
}

#[test]
fn a_client_certificate_carries_every_group() {
    let ca = authority();
    let subject = Subject::user("alice", ["dev", "ops", "system:masters"]);
    let issued = ca.issue(&Leaf::client(subject.clone()), at(NOW)).unwrap();
    let trust = ClientTrust::new([ca.certificate()]).unwrap();
    let seen = trust.verify(&[issued.certificate], at(NOW)).unwrap();
    assert_eq!(seen.subject, subject);
    assert_eq!(seen.fingerprint.len(), 64);
}

#[test]
fn an_expired_or_early_or_foreign_or_self_signed_certificate_is_not_believed() {
    let (ca, other) = (authority(), authority());
    let trust = ClientTrust::new([ca.certificate()]).unwrap();
    let leaf = Leaf::client(Subject::named("alice")).good_for(Duration::from_secs(60));
    let issued = ca.issue(&leaf, at(NOW)).unwrap();
    assert!(trust.verify(std::slice::from_ref(&issued.certificate), at(NOW + 59)).is_ok());
    assert!(trust.verify(std::slice::from_ref(&issued.certificate), at(NOW + 61)).is_err());
    assert!(trust.verify(std::slice::from_ref(&issued.certificate), at(NOW - 2 * 3600)).is_err());
    let foreign = other.issue(&leaf, at(NOW)).unwrap();
    assert!(trust.verify(&[foreign.certificate], at(NOW)).is_err());
    assert!(trust.verify(&[other.certificate().clone()], at(NOW)).is_err());
    assert!(trust.verify(&[], at(NOW)).is_err());
}

#[test]
fn a_serving_certificate_is_no_client_certificate() {
    let ca = authority();
    let leaf = Leaf::server(Subject::user("x", ["system:masters"]), vec![San::parse("localhost")]);
    let issued = ca.issue(&leaf, at(NOW)).unwrap();
    assert!(ClientTrust::new([ca.certificate()]).unwrap().verify(&[issued.certificate], at(NOW)).is_err());
}

#[test]
fn a_changed_byte_is_noticed() {
    let ca = authority();
    let trust = ClientTrust::new([ca.certificate()]).unwrap();
    let issued = ca.issue(&Leaf::client(Subject::named("alice")), at(NOW)).unwrap();
    let good = issued.certificate.as_ref().to_vec();
    let at_name = good.windows(5).position(|w| w == b"alice").unwrap();
    let mut bad = good.clone();
    bad[at_name] = b'b';
    assert!(trust.verify(&[CertificateDer::from(bad)], at(NOW)).is_err());
    assert!(trust.verify(&[CertificateDer::from(good)], at(NOW)).is_ok());
}

#[test]
fn the_serving_names_are_upstreams() {
    let sans = serving_sans("cluster.local", &["10.96.0.1".parse().unwrap(), "0.0.0.0".parse().unwrap()], &[]);
    for name in [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ] {
        assert!(sans.contains(&San::Dns(name.to_owned())), "{name}");
    }
    for ip in ["127.0.0.1", "::1", "10.96.0.1"] {
        assert!(sans.contains(&San::Ip(ip.parse().unwrap())), "{ip}");
    }
    assert_eq!(sans.len(), 8);
}

#[test]
fn a_second_open_loads_what_the_first_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pki");
    let first = Pki::open(&path, &ServingNames::default(), at(NOW)).unwrap();
    let second = Pki::open(&path, &ServingNames::default(), at(NOW + DAY)).unwrap();
    assert_eq!(first.ca.certificate(), second.ca.certificate());
    assert_eq!(first.front_proxy_ca.certificate(), second.front_proxy_ca.certificate());
    assert_eq!(first.serving.certificate, second.serving.certificate);
    assert_eq!(first.front_proxy_client.certificate, second.front_proxy_client.certificate);
    assert_eq!(first.service_account.id(), second.service_account.id());
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        let name = entry.file_name().into_string().unwrap();
        assert_eq!(mode, if name.ends_with(".key") { 0o600 } else { 0o644 }, "{name}");
        assert!(!name.ends_with(".tmp"), "{name}");
    }
}

#[test]
fn new_names_or_little_time_left_reissue_the_serving_certificate_only() {
    let dir = tempfile::tempdir().unwrap();
    let names = ServingNames::default();
    let first = Pki::open(dir.path(), &names, at(NOW)).unwrap();
    let mut more = names.clone();
    more.addresses.push(IpAddr::from([192, 0, 2, 7]));
    let second = Pki::open(dir.path(), &more, at(NOW)).unwrap();
    assert_ne!(first.serving.certificate, second.serving.certificate);
    assert!(second.serving.facts().unwrap().sans.contains(&San::Ip(IpAddr::from([192, 0, 2, 7]))));
    assert_eq!(first.kubelet_client.certificate, second.kubelet_client.certificate);
    let third = Pki::open(dir.path(), &more, at(NOW + 300 * DAY)).unwrap();
    assert_ne!(second.serving.certificate, third.serving.certificate);
    assert_eq!(first.ca.certificate(), third.ca.certificate());
}

#[test]
fn a_lost_authority_key_is_an_error_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    Pki::open(dir.path(), &ServingNames::default(), at(NOW)).unwrap();
    std::fs::remove_file(dir.path().join("ca.key")).unwrap();
    let error = Pki::open(dir.path(), &ServingNames::default(), at(NOW)).unwrap_err();
    assert!(error.to_string().contains("ca.key"), "{error}");
}

#[test]
fn a_torn_or_foreign_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    Pki::open(dir.path(), &ServingNames::default(), at(NOW)).unwrap();
    std::fs::write(dir.path().join("ca.crt"), "garbage").unwrap();
    let error = Pki::open(dir.path(), &ServingNames::default(), at(NOW)).unwrap_err();
    assert!(error.to_string().contains("ca.crt"), "{error}");
    // A certificate that does not belong to the key.
    std::fs::write(dir.path().join("ca.crt"), authority().certificate_pem()).unwrap();
    let error = Pki::open(dir.path(), &ServingNames::default(), at(NOW)).unwrap_err();
    assert!(error.to_string().contains("does not belong"), "{error}");
}

#[test]
fn a_crash_between_key_and_certificate_is_healed() {
    let dir = tempfile::tempdir().unwrap();
    Pki::open(dir.path(), &ServingNames::default(), at(NOW)).unwrap();
    std::fs::remove_file(dir.path().join("ca.crt")).unwrap();
    let healed = Pki::open(dir.path(), &ServingNames::default(), at(NOW)).unwrap();
    assert!(healed.ca.signed(&healed.serving.certificate));
}

#[test]
fn only_the_holder_of_the_key_signs_tokens() {
    let key = SigningKey::new(&KeyPair::generate().unwrap()).unwrap();
    let other = SigningKey::new(&KeyPair::generate().unwrap()).unwrap();
    let keys = VerifyingKeys::new().with(&key);
    let signature = key.sign(b"message").unwrap();
    assert_eq!(signature.len(), 64);
    assert!(keys.verify(Some(key.id()), b"message", &signature));
    assert!(keys.verify(None, b"message", &signature));
    assert!(!keys.verify(Some(key.id()), b"massage", &signature));
    assert!(!keys.verify(Some(other.id()), b"message", &signature));
    assert!(!keys.verify(Some(key.id()), b"message", &other.sign(b"message").unwrap()));
}

/// The key pair of a real kube-apiserver: its `/openid/v1/jwks` gave this id.
#[test]
fn the_key_id_is_upstreams() {
    let jwks = VerifyingKeys::new().with_pem(include_str!("../tests/data/sa.pub")).unwrap().jwks();
    assert_eq!(jwks, include_str!("../tests/data/jwks.json"));
}

#[test]
fn a_signing_request_is_signed_with_its_whole_subject() {
    let ca = authority();
    let csr = parse_csr(include_str!("../tests/data/two-groups.csr")).unwrap();
    assert_eq!(csr.subject, Subject::user("system:node:a", ["system:nodes", "extra"]));
    assert_eq!(csr.sans, vec![San::parse("a.example"), San::parse("192.0.2.1")]);
    let leaf =
        Leaf { subject: csr.subject.clone(), sans: csr.sans, usage: Usage::Client, lifetime: Duration::from_secs(60) };
    let certificate = ca.sign(&leaf, &csr.public_key, at(NOW)).unwrap();
    let seen = ClientTrust::new([ca.certificate()]).unwrap().verify(&[certificate], at(NOW)).unwrap();
    assert_eq!(seen.subject, csr.subject);
}

#[test]
fn a_tampered_or_malformed_signing_request_is_refused() {
    let good = pem::parse(include_str!("../tests/data/two-groups.csr")).unwrap();
    // The length of the signed part and the header before it; the rest is the signature itself.
    let signed = good.contents().len() - 10 - 2 - 71 - 4;
    for cut in 0..good.contents().len() {
        let text = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", &good.contents()[..cut]));
        assert!(parse_csr(&text).is_err(), "cut at {cut}");
        if cut >= signed {
            continue;
        }
        let mut flipped = good.contents().to_vec();
        flipped[cut] ^= 1;
        let text = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", flipped));
        assert!(parse_csr(&text).is_err(), "flipped at {cut}");
    }
    assert!(parse_csr("").is_err());
}

/// Prints a measurement and asserts nothing: `cargo test -p oarlock-pki -- --ignored --nocapture`.
#[test]
#[ignore = "prints a figure"]
#[expect(clippy::disallowed_methods, reason = "measures real time")]
fn first_start_figure() {
    for _ in 0..5 {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let begin = std::time::Instant::now();
        Pki::open(&dir.path().join("pki"), &ServingNames::default(), at(NOW)).unwrap();
        let made = begin.elapsed();
        let begin = std::time::Instant::now();
        Pki::open(&dir.path().join("pki"), &ServingNames::default(), at(NOW)).unwrap();
        println!("first start {made:?}, second {:?}", begin.elapsed());
    }
}

mod handshake;

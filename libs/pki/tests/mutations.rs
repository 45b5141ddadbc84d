//! Damaged certificates, requests and keys are refused or parsed without a panic.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use oarlock_pki::{
    Authority, ClientTrust, KeyPair, Leaf, Subject, UnixTime, VerifyingKeys, parse_chain, parse_csr, parse_presented,
};
use oarlock_testkit::{damaged, damaged_text};

const CSR: &str = include_str!("data/two-groups.csr");
const SA: &str = include_str!("data/sa.pub");

#[test]
fn damaged_pem_is_refused_or_read_soundly() {
    let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
    let authority = Authority::create("ca", now).unwrap();
    let (certificate, key) = (authority.certificate_pem(), authority.key_pem().unwrap());
    let mut read = 0;
    for text in damaged_text(1, &certificate, 1000) {
        for one in parse_chain(&text).into_iter().flatten() {
            read += 1;
            let facts = parse_presented(&one);
            if let Ok(trust) = ClientTrust::new([&one]) {
                let leaf = authority.issue(&Leaf::client(Subject::named("alice")), now).unwrap();
                // A damaged authority may still have the name and the key of the signer.
                let _ = trust.verify(&[leaf.certificate], now);
                assert!(facts.is_ok() || trust.verify(&[one], now).is_err());
            }
        }
        if let Ok(authority) = Authority::from_pem(&text, &key) {
            authority.issue(&Leaf::client(Subject::named("alice")), now).unwrap();
        }
    }
    for text in damaged_text(2, &key, 1000) {
        if let Ok(pair) = KeyPair::from_pem(&text) {
            read += 1;
            assert_eq!(KeyPair::from_pem(&pair.to_pem()).unwrap().public_der(), pair.public_der());
        }
        let _ = Authority::from_pem(&certificate, &text);
    }
    for text in damaged_text(3, SA, 1000) {
        let _ = VerifyingKeys::new().with_pem(&text).map(|keys| keys.jwks());
    }
    for text in damaged_text(4, CSR, 1000) {
        read += usize::from(parse_csr(&text).is_ok());
    }
    assert!(read > 100, "only {read} were still readable");
}

#[test]
fn a_damaged_certificate_is_nobodys() {
    let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
    let authority = Authority::create("ca", now).unwrap();
    let trust = ClientTrust::new([authority.certificate()]).unwrap();
    let good = authority.issue(&Leaf::client(Subject::user("alice", ["dev"])), now).unwrap().certificate;
    for bytes in damaged(5, &good, 1000).filter(|bytes| *bytes != good.as_ref()) {
        let one = oarlock_pki::CertificateDer::from(bytes);
        let _ = parse_presented(&one);
        assert!(trust.verify(&[one], now).is_err());
    }
}

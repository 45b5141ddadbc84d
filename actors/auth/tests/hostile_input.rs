//! Any token, certificate or header that a client may send is refused without a panic.

use http::{HeaderMap, HeaderValue};
use oarlock_auth::tokens::{DEFAULT_ISSUER, Found, FoundPod, Lookup, Verifier};
use oarlock_auth::{Authenticators, PeerCertificates, impersonation};
use oarlock_pki::{
    Authority, CertificateDer, ClientTrust, Leaf, Subject, UnixTime, VerifyingKeys, parse_csr, parse_presented,
};
use proptest::prelude::*;

struct Nothing;
impl Lookup for Nothing {
    fn service_account(&self, _: &str, _: &str) -> Option<Found> {
        None
    }
    fn pod(&self, _: &str, _: &str) -> Option<FoundPod> {
        None
    }
    fn secret(&self, _: &str, _: &str) -> Option<Found> {
        None
    }
    fn node(&self, _: &str) -> Option<Found> {
        None
    }
}

fn now() -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_800_000_000))
}

fn chain() -> (Authority, Authenticators) {
    let ca = Authority::create("ca", now()).unwrap();
    let trust = ClientTrust::new([ca.certificate()]).unwrap();
    let verifier = Verifier::new(vec![DEFAULT_ISSUER.to_owned()], Vec::new(), VerifyingKeys::new());
    (ca, Authenticators::new().with_clients(trust).with_tokens(verifier, std::sync::Arc::new(Nothing)))
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}

proptest! {
    #[test]
    fn arbitrary_tokens_are_refused(token in "[!-~]{1,80}", a in ".{0,40}", b in ".{0,60}", c in ".{0,40}") {
        let (_, chain) = chain();
        for token in [token, format!("{}.{}.{}", base64(&a), base64(&b), base64(&c)), format!("{}.{}.", base64(r#"{"alg":"ES256"}"#), base64(&format!(r#"{{"iss":"{DEFAULT_ISSUER}","exp":1e400,"aud":{b:?}}}"#)))] {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
            prop_assert!(chain.authenticate(None, &headers, 1_800_000_000).is_err());
        }
    }

    #[test]
    fn damaged_certificates_are_refused(at in 0_usize..400, bit in 0_u8..8, cut in any::<bool>()) {
        let (ca, chain) = chain();
        let good = ca.issue(&Leaf::client(Subject::user("alice", ["dev"])), now()).unwrap().certificate;
        let mut bytes = good.as_ref().to_vec();
        let at = at % bytes.len();
        if cut {
            bytes.truncate(at);
        } else if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << bit;
        }
        let damaged = CertificateDer::from(bytes);
        // Parsing may succeed; verification must fail.
        let _ = parse_presented(&damaged);
        let peer = PeerCertificates::new(vec![damaged]).unwrap();
        prop_assert!(chain.authenticate(Some(&peer), &HeaderMap::new(), 1_800_000_000).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_no_certificate_and_no_request(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,200}") {
        prop_assert!(parse_presented(&CertificateDer::from(bytes.clone())).is_err());
        prop_assert!(parse_csr(&text).is_err());
        let pem = format!("-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n", base64(&text));
        prop_assert!(parse_csr(&pem).is_err());
    }

    #[test]
    fn arbitrary_impersonation_headers_are_answered(user in "[ -~]{0,40}", key in "[a-z%0-9]{0,20}", value in proptest::collection::vec(128_u8..255, 0..10)) {
        let mut headers = HeaderMap::new();
        headers.insert("impersonate-user", HeaderValue::from_str(&user).unwrap());
        if let (Ok(name), Ok(value)) = (format!("impersonate-extra-{key}").parse::<http::HeaderName>(), HeaderValue::from_bytes(&value)) {
            headers.insert(name, value);
        }
        if let Ok(Some(asked)) = impersonation::requested(&headers) {
            prop_assert!(!asked.user.name.is_empty() && !asked.checks.is_empty());
        }
    }
}

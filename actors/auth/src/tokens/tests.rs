//! Issued tokens are accepted, and all others are refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oarlock_pki::{KeyPair, SigningKey, VerifyingKeys};
use parking_lot::Mutex;

use super::*;
use crate::user::{CREDENTIAL_ID, NODE_NAME, POD_NAME, POD_UID};

const NOW: i64 = 1_800_000_000;

/// Names and uids of objects, which a test can change.
#[derive(Default)]
struct Objects(Mutex<BTreeMap<(&'static str, String), FoundPod>>);

impl Objects {
    fn put(&self, kind: &'static str, name: &str, uid: &str) {
        let object = Found { uid: uid.to_owned(), deleted_at: None };
        let pod = FoundPod { object, service_account: "x".to_owned(), node: "n1".to_owned() };
        self.0.lock().insert((kind, name.to_owned()), pod);
    }
    fn delete(&self, kind: &'static str, name: &str) {
        self.0.lock().remove(&(kind, name.to_owned()));
    }
    fn terminate(&self, kind: &'static str, name: &str, at: i64) {
        self.0.lock().get_mut(&(kind, name.to_owned())).unwrap().object.deleted_at = Some(at);
    }
    fn get(&self, kind: &'static str, name: &str) -> Option<FoundPod> {
        self.0.lock().get(&(kind, name.to_owned())).cloned()
    }
}

impl Lookup for Objects {
    fn service_account(&self, namespace: &str, name: &str) -> Option<Found> {
        self.get("account", name).filter(|_| namespace == "default").map(|f| f.object)
    }
    fn pod(&self, _: &str, name: &str) -> Option<FoundPod> {
        self.get("pod", name)
    }
    fn secret(&self, _: &str, name: &str) -> Option<Found> {
        self.get("secret", name).map(|f| f.object)
    }
    fn node(&self, name: &str) -> Option<Found> {
        self.get("node", name).map(|f| f.object)
    }
}

struct Fixture {
    objects: Objects,
    issuer: Issuer,
    verifier: Verifier,
    key: Arc<SigningKey>,
}

fn key() -> Arc<SigningKey> {
    Arc::new(SigningKey::new(&KeyPair::generate().unwrap()).unwrap())
}

fn fixture() -> Fixture {
    let key = key();
    let objects = Objects::default();
    objects.put("account", "x", "u-x");
    objects.put("pod", "p", "u-p");
    objects.put("secret", "s", "u-s");
    objects.put("node", "n1", "u-n1");
    let issuer = Issuer::new(key.clone(), DEFAULT_ISSUER.to_owned(), Vec::new());
    let verifier = Verifier::new(vec![DEFAULT_ISSUER.to_owned()], Vec::new(), VerifyingKeys::new().with(&key));
    Fixture { objects, issuer, verifier, key }
}

impl Fixture {
    fn issue(&self, request: &TokenRequest) -> IssuedToken {
        self.issuer.issue(("default", "x"), request, &self.objects, NOW, "jti-1").unwrap()
    }
    fn refusal(&self, token: &str, now: i64) -> String {
        self.verifier.verify(token, None, &self.objects, now).unwrap_err().to_string()
    }
    fn refused(&self, request: &TokenRequest) -> (u16, String) {
        let status = self.issuer.issue(("default", "x"), request, &self.objects, NOW, "j").unwrap_err();
        (status.code, status.message.clone())
    }
}

fn bound(kind: &str, name: &str) -> TokenRequest {
    let bound =
        BoundObject { api_version: "v1".to_owned(), kind: kind.to_owned(), name: name.to_owned(), uid: String::new() };
    TokenRequest { bound: Some(bound), ..TokenRequest::default() }
}

#[test]
fn a_pods_token_proves_account_pod_and_node() {
    let f = fixture();
    let issued = f.issue(&bound("Pod", "p"));
    assert_eq!((issued.expires_at, issued.expiration_seconds), (NOW + 3600, 3600));
    let verified = f.verifier.verify(&issued.token, None, &f.objects, NOW).unwrap();
    let user = &verified.user;
    assert_eq!(user.name, "system:serviceaccount:default:x");
    assert_eq!(user.uid, "u-x");
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    for (key, value) in [(POD_NAME, "p"), (POD_UID, "u-p"), (NODE_NAME, "n1"), (CREDENTIAL_ID, "JTI=jti-1")] {
        assert_eq!(user.extra.get(key).unwrap(), &[value.to_owned()], "{key}");
    }
    assert_eq!(verified.audiences, [DEFAULT_ISSUER]);
}

/// The claims are those of kube-apiserver 1.35 for `kubectl create token`.
#[test]
fn the_claims_are_upstreams_in_upstreams_order() {
    let f = fixture();
    let token = f.issue(&TokenRequest::default()).token;
    let part = |n: usize| String::from_utf8(URL_SAFE_NO_PAD.decode(token.split('.').nth(n).unwrap()).unwrap()).unwrap();
    assert_eq!(part(0), format!(r#"{{"alg":"ES256","kid":"{}"}}"#, f.key.id()));
    assert_eq!(
        part(1),
        format!(
            r#"{{"aud":["{DEFAULT_ISSUER}"],"exp":{},"iat":{NOW},"iss":"{DEFAULT_ISSUER}","jti":"jti-1","kubernetes.io":{{"namespace":"default","serviceaccount":{{"name":"x","uid":"u-x"}}}},"nbf":{NOW},"sub":"system:serviceaccount:default:x"}}"#,
            NOW + 3600
        )
    );
}

#[test]
fn time_is_checked_on_every_use() {
    let f = fixture();
    let token = f.issue(&TokenRequest::default()).token;
    assert!(f.verifier.verify(&token, None, &f.objects, NOW).is_ok());
    assert!(f.verifier.verify(&token, None, &f.objects, NOW + 3660).is_ok());
    assert!(f.refusal(&token, NOW + 3661).contains("service account token has expired"));
    assert!(f.refusal(&token, NOW - 61).contains("service account token is not valid yet"));
}

#[test]
fn a_token_ends_with_its_objects_even_when_it_was_used_before() {
    for kind in ["account", "pod", "secret", "node"] {
        let f = fixture();
        let (request, name) = match kind {
            "pod" => (bound("Pod", "p"), "p"),
            "secret" => (bound("Secret", "s"), "s"),
            "node" => (bound("Node", "n1"), "n1"),
            _ => (TokenRequest::default(), "x"),
        };
        let token = f.issue(&request).token;
        assert!(f.verifier.verify(&token, None, &f.objects, NOW).is_ok());
        f.objects.terminate(kind, name, NOW - 60);
        assert!(f.verifier.verify(&token, None, &f.objects, NOW).is_ok(), "{kind}: grace");
        f.objects.terminate(kind, name, NOW - 61);
        assert!(f.verifier.verify(&token, None, &f.objects, NOW).is_err(), "{kind}: deleted");
        f.objects.put(kind, name, "another");
        assert!(f.refusal(&token, NOW).contains("does not match"), "{kind}: recreated");
        f.objects.delete(kind, name);
        assert!(f.verifier.verify(&token, None, &f.objects, NOW).is_err(), "{kind}: gone");
    }
}

#[test]
fn a_pods_token_does_not_end_with_the_node() {
    let f = fixture();
    let token = f.issue(&bound("Pod", "p")).token;
    f.objects.delete("node", "n1");
    assert!(f.verifier.verify(&token, None, &f.objects, NOW).is_ok());
}

#[test]
fn every_changed_character_is_noticed() {
    let f = fixture();
    let token = f.issue(&bound("Pod", "p")).token;
    let signature = token.rfind('.').unwrap();
    for at in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        // The last character of the signature has unused bits, which decoders require to be zero.
        let changed = String::from_utf8(bytes).unwrap();
        assert!(f.verifier.verify(&changed, None, &f.objects, NOW).is_err(), "at {at} of {signature}");
    }
    for cut in 0..token.len() {
        assert!(f.verifier.verify(&token[..cut], None, &f.objects, NOW).is_err(), "cut at {cut}");
    }
    assert!(f.verifier.verify(&format!("{token}.x"), None, &f.objects, NOW).is_err());
    assert!(f.verifier.verify(&token, None, &f.objects, NOW).is_ok());
}

#[test]
fn another_issuer_audience_or_key_is_refused() {
    let f = fixture();
    let token = f.issue(&TokenRequest { audiences: vec!["vault".to_owned()], ..TokenRequest::default() }).token;
    assert_eq!(
        f.refusal(&token, NOW),
        format!(
            r#"[invalid bearer token, token audiences ["vault"] is invalid for the target audiences ["{DEFAULT_ISSUER}"]]"#
        )
    );
    let vault = ["vault".to_owned(), "other".to_owned()];
    assert_eq!(f.verifier.verify(&token, Some(&vault), &f.objects, NOW).unwrap().audiences, ["vault"]);

    let foreign = Issuer::new(f.key.clone(), "https://elsewhere".to_owned(), vec![DEFAULT_ISSUER.to_owned()]);
    let token = foreign.issue(("default", "x"), &TokenRequest::default(), &f.objects, NOW, "j").unwrap().token;
    assert_eq!(f.refusal(&token, NOW), "invalid bearer token");

    let forger = Issuer::new(key(), DEFAULT_ISSUER.to_owned(), Vec::new());
    let token = forger.issue(("default", "x"), &TokenRequest::default(), &f.objects, NOW, "j").unwrap().token;
    assert_eq!(f.refusal(&token, NOW), "[invalid bearer token, invalid signature, no keys found]");
}

#[test]
fn no_other_algorithm_is_accepted() {
    let f = fixture();
    let token = f.issue(&TokenRequest::default()).token;
    let (_, rest) = token.split_once('.').unwrap();
    let (claims, signature) = rest.split_once('.').unwrap();
    for header in [
        r#"{"alg":"none"}"#.to_owned(),
        r#"{"alg":"HS256"}"#.to_owned(),
        format!(r#"{{"alg":"ES384","kid":"{}"}}"#, f.key.id()),
        format!(r#"{{"alg":"ES256","kid":"{}","crit":["exp"]}}"#, f.key.id()),
        "{}".to_owned(),
        "[]".to_owned(),
    ] {
        let header = URL_SAFE_NO_PAD.encode(header);
        for signature in [signature, ""] {
            assert!(f.verifier.verify(&format!("{header}.{claims}.{signature}"), None, &f.objects, NOW).is_err());
        }
    }
}

#[test]
fn the_lifetime_admission_asks_for_is_extended_for_pods_only() {
    let f = fixture();
    let request = TokenRequest { expiration_seconds: Some(3607), ..bound("Pod", "p") };
    let issued = f.issue(&request);
    assert_eq!(issued.expires_at, NOW + 3607);
    let day = 24 * 3600;
    let verified = f.verifier.verify(&issued.token, None, &f.objects, NOW + 364 * day).unwrap();
    assert_eq!(verified.stale_for, Some(364 * day - 3607));
    assert_eq!(f.verifier.verify(&issued.token, None, &f.objects, NOW + 3607).unwrap().stale_for, None);
    assert!(f.verifier.verify(&issued.token, None, &f.objects, NOW + 366 * day).is_err());
    let unbound = f.issue(&TokenRequest { expiration_seconds: Some(3607), ..TokenRequest::default() });
    assert!(f.verifier.verify(&unbound.token, None, &f.objects, NOW + day).is_err());
}

#[test]
fn a_longer_lifetime_than_the_servers_is_shortened_with_a_warning() {
    let f = fixture();
    let issuer = f.issuer.clone().at_most(7200);
    let request = TokenRequest { expiration_seconds: Some(9000), ..TokenRequest::default() };
    let issued = issuer.issue(("default", "x"), &request, &f.objects, NOW, "j").unwrap();
    assert_eq!(issued.expiration_seconds, 7200);
    assert_eq!(issued.warnings, ["requested expiration of 9000 seconds shortened to 7200 seconds"]);
}

/// The texts are those of kube-apiserver 1.35.
#[test]
fn bad_requests_answer_upstreams_status() {
    let f = fixture();
    let seconds = |s| TokenRequest { expiration_seconds: Some(s), ..TokenRequest::default() };
    assert_eq!(
        f.refused(&seconds(5)),
        (422, r#"TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes"#.to_owned())
    );
    assert_eq!(f.refused(&seconds((1 << 32) + 1)).0, 422);
    assert_eq!(f.refused(&bound("Foo", "x")), (400, "cannot bind token to object of type /v1, Kind=Foo".to_owned()));
    assert_eq!(f.refused(&bound("Secret", "nope")), (404, r#"secrets "nope" not found"#.to_owned()));
    assert_eq!(f.refused(&bound("Pod", "nope")).0, 404);
    assert_eq!(
        f.refused(&TokenRequest { name: "y".to_owned(), uid: "1".to_owned(), ..TokenRequest::default() }),
        (422, r#"TokenRequest.authentication.k8s.io "x" is invalid: metadata.name: Invalid value: "y": must match the service account name if specified"#.to_owned())
    );
    assert_eq!(
        f.refused(&TokenRequest { uid: "1".to_owned(), ..TokenRequest::default() }),
        (409, r#"Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "x": the UID in the token request (1) does not match the UID of the service account (u-x)"#.to_owned())
    );
    let mut other = bound("Pod", "p");
    other.bound.as_mut().unwrap().uid = "old".to_owned();
    assert_eq!(f.refused(&other).0, 409);
    let status = f.issuer.issue(("default", "y"), &TokenRequest::default(), &f.objects, NOW, "j").unwrap_err();
    assert_eq!(status.message, r#"serviceaccounts "y" not found"#);
}

#[test]
fn a_token_of_a_pod_of_another_account_is_not_issued() {
    let f = fixture();
    f.objects.put("account", "y", "u-y");
    let status = f.issuer.issue(("default", "y"), &bound("Pod", "p"), &f.objects, NOW, "j").unwrap_err();
    assert_eq!(status.code, 400);
    assert!(status.message.contains("different serviceaccount name"), "{}", status.message);
}

#[test]
fn a_real_upstream_token_is_read() {
    let keys = VerifyingKeys::new().with_pem(include_str!("../../tests/data/upstream-sa.pub")).unwrap();
    let verifier = Verifier::new(vec!["https://kubernetes.default.svc".to_owned()], Vec::new(), keys);
    let objects = Objects::default();
    let token = include_str!("../../tests/data/upstream-token.jwt").trim();
    let parsed = super::jwt::Parsed::parse(token).unwrap();
    objects.put("account", "x", &parsed.claims.kubernetes.serviceaccount.uid);
    let now = parsed.claims.iat.unwrap();
    let verified = verifier.verify(token, None, &objects, now).unwrap();
    assert_eq!(verified.user.name, "system:serviceaccount:default:x");
}

/// The document is that of kube-apiserver 1.35.
#[test]
fn the_openid_document_is_upstreams() {
    assert_eq!(
        openid_configuration("https://kubernetes.default.svc", "https://127.0.0.1:20443/openid/v1/jwks"),
        r#"{"issuer":"https://kubernetes.default.svc","jwks_uri":"https://127.0.0.1:20443/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}"#
    );
}

/// A measurement without assertion.
#[test]
#[ignore = "prints a figure"]
#[expect(clippy::disallowed_methods, reason = "measures real time")]
fn verification_figure() {
    let f = fixture();
    let token = f.issue(&bound("Pod", "p")).token;
    let begin = std::time::Instant::now();
    f.verifier.verify(&token, None, &f.objects, NOW).unwrap();
    println!("first {:?}", begin.elapsed());
    let begin = std::time::Instant::now();
    for _ in 0..100_000 {
        f.verifier.verify(&token, None, &f.objects, NOW).unwrap();
    }
    println!("again {:?}", begin.elapsed() / 100_000);
}

//! A wrong credential is refused whatever else the request contains; only a request without any is anonymous.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use oarlock_pki::{Authority, ClientTrust, KeyPair, Leaf, SigningKey, Subject, UnixTime, VerifyingKeys};

use super::*;
use crate::tokens::{DEFAULT_ISSUER, Found, FoundPod, Issuer, TokenRequest};
use crate::user::CREDENTIAL_ID;

const NOW: i64 = 1_800_000_000;

fn at(seconds: i64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds as u64))
}

struct OneAccount;
impl Lookup for OneAccount {
    fn service_account(&self, _: &str, _: &str) -> Option<Found> {
        Some(Found { uid: "u".to_owned(), deleted_at: None })
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

struct Fixture {
    ca: Authority,
    proxy_ca: Authority,
    chain: Authenticators,
    token: String,
}

fn fixture() -> Fixture {
    let (ca, proxy_ca) = (Authority::create("ca", at(NOW)).unwrap(), Authority::create("front", at(NOW)).unwrap());
    let key = Arc::new(SigningKey::new(&KeyPair::generate().unwrap()).unwrap());
    let issuer = Issuer::new(key.clone(), DEFAULT_ISSUER.to_owned(), Vec::new());
    let token = issuer.issue(("default", "x"), &TokenRequest::default(), &OneAccount, NOW, "j").unwrap().token;
    let verifier = Verifier::new(vec![DEFAULT_ISSUER.to_owned()], Vec::new(), VerifyingKeys::new().with(&key));
    let front = RequestHeader::standard(
        ClientTrust::new([proxy_ca.certificate()]).unwrap(),
        vec!["front-proxy-client".to_owned()],
    );
    let chain = Authenticators::new()
        .with_clients(ClientTrust::new([ca.certificate()]).unwrap())
        .with_front_proxy(front)
        .with_tokens(verifier, Arc::new(OneAccount));
    Fixture { ca, proxy_ca, chain, token }
}

fn peer(ca: &Authority, subject: Subject, seconds: u64) -> PeerCertificates {
    let leaf = Leaf::client(subject).good_for(Duration::from_secs(seconds));
    PeerCertificates::new(vec![ca.issue(&leaf, at(NOW)).unwrap().certificate]).unwrap()
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn name(answer: Result<Authenticated, Unauthorized>) -> Option<String> {
    answer.ok().map(|a| a.user.name.clone())
}

#[test]
fn no_credential_is_anonymous_unless_that_is_off() {
    let f = fixture();
    let user = f.chain.authenticate(None, &HeaderMap::new(), NOW).unwrap().user;
    assert_eq!(*user, UserInfo::anonymous());
    let basic = headers(&[("authorization", "Basic eDp5")]);
    assert_eq!(name(f.chain.authenticate(None, &basic, NOW)).unwrap(), "system:anonymous");
    let strict = f.chain.without_anonymous();
    assert!(strict.authenticate(None, &HeaderMap::new(), NOW).is_err());
}

#[test]
fn a_client_certificate_names_user_and_groups() {
    let f = fixture();
    let peer = peer(&f.ca, Subject::user("alice", ["dev", "ops"]), 600);
    let user = f.chain.authenticate(Some(&peer), &HeaderMap::new(), NOW).unwrap().user;
    assert_eq!(user.name, "alice");
    assert_eq!(user.groups, ["dev", "ops", "system:authenticated"]);
    assert!(user.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
    assert!(Arc::ptr_eq(&user, &f.chain.authenticate(Some(&peer), &HeaderMap::new(), NOW).unwrap().user));
}

#[test]
fn expiry_is_noticed_on_an_open_connection() {
    let f = fixture();
    let peer = peer(&f.ca, Subject::named("alice"), 600);
    assert!(f.chain.authenticate(Some(&peer), &HeaderMap::new(), NOW + 600).is_ok());
    assert!(f.chain.authenticate(Some(&peer), &HeaderMap::new(), NOW + 601).is_err());
}

#[test]
fn a_foreign_or_self_signed_certificate_is_refused_but_a_good_token_beside_it_counts() {
    let f = fixture();
    let other = Authority::create("ca", at(NOW)).unwrap();
    let foreign = peer(&other, Subject::user("mallory", ["system:masters"]), 600);
    assert!(f.chain.authenticate(Some(&foreign), &HeaderMap::new(), NOW).is_err());
    let own = PeerCertificates::new(vec![other.certificate().clone()]).unwrap();
    assert!(f.chain.authenticate(Some(&own), &HeaderMap::new(), NOW).is_err());
    let bearer = headers(&[("authorization", &format!("Bearer {}", f.token))]);
    assert_eq!(name(f.chain.authenticate(Some(&foreign), &bearer, NOW)).unwrap(), "system:serviceaccount:default:x");
}

#[test]
fn a_wrong_token_is_refused_and_a_good_one_is_not() {
    let f = fixture();
    for (value, expected) in [
        (format!("Bearer {}", f.token), Some("system:serviceaccount:default:x")),
        (format!("bearer {} ignored", f.token), Some("system:serviceaccount:default:x")),
        (format!("Bearer {}x", f.token), None),
        ("Bearer x".to_owned(), None),
        ("Bearer".to_owned(), Some("system:anonymous")),
        ("Bearer ".to_owned(), Some("system:anonymous")),
    ] {
        let headers = headers(&[("authorization", &value)]);
        assert_eq!(name(f.chain.authenticate(None, &headers, NOW)).as_deref(), expected, "{value}");
    }
    let spaced = headers(&[("authorization", &format!("Bearer  {}", f.token))]);
    let answer = f.chain.authenticate(None, &spaced, NOW).unwrap();
    assert!(answer.warning.is_some());
    assert_eq!(answer.user.name, "system:anonymous");
}

#[test]
fn a_websocket_may_carry_the_token_as_a_subprotocol() {
    use base64::Engine as _;
    let f = fixture();
    let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&f.token);
    let protocol = format!("base64url.bearer.authorization.k8s.io.{encoded}");
    let with = |protocols: &str| {
        headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-protocol", protocols),
        ])
    };
    let mut good = with(&format!("{protocol}, v5.channel.k8s.io"));
    assert_eq!(name(f.chain.authenticate(None, &good, NOW)).unwrap(), "system:serviceaccount:default:x");
    f.chain.clear(&mut good);
    assert_eq!(good.get("sec-websocket-protocol").unwrap(), "v5.channel.k8s.io");
    for bad in [
        protocol.clone(),
        format!("{protocol},{protocol},v5"),
        "base64url.bearer.authorization.k8s.io.%%,v5".to_owned(),
    ] {
        assert!(f.chain.authenticate(None, &with(&bad), NOW).is_err(), "{bad}");
    }
    // Without a WebSocket upgrade the subprotocols are ignored.
    let plain = headers(&[("sec-websocket-protocol", &format!("{protocol},v5"))]);
    assert_eq!(name(f.chain.authenticate(None, &plain, NOW)).unwrap(), "system:anonymous");
}

#[test]
fn only_the_front_proxy_may_say_who_the_user_is() {
    let f = fixture();
    let claim = headers(&[
        ("x-remote-user", "bob"),
        ("x-remote-uid", "7"),
        ("x-remote-group", "a"),
        ("x-remote-group", "b"),
        ("x-remote-extra-acme.com%2fproject", "p"),
    ]);
    let proxy = peer(&f.proxy_ca, Subject::named("front-proxy-client"), 600);
    let user = f.chain.authenticate(Some(&proxy), &claim, NOW).unwrap().user;
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("bob", "7"));
    assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
    assert_eq!(user.extra["acme.com/project"], ["p"]);

    let wrong_name = peer(&f.proxy_ca, Subject::named("somebody"), 600);
    assert!(f.chain.authenticate(Some(&wrong_name), &claim, NOW).is_err());
    let client = peer(&f.ca, Subject::named("front-proxy-client"), 600);
    assert_eq!(name(f.chain.authenticate(Some(&client), &claim, NOW)).unwrap(), "front-proxy-client");
    assert_eq!(name(f.chain.authenticate(None, &claim, NOW)).unwrap(), "system:anonymous");
    // The proxy's certificate alone identifies no user.
    assert!(f.chain.authenticate(Some(&proxy), &HeaderMap::new(), NOW).is_err());
}

#[test]
fn no_credential_passes_the_chain() {
    let f = fixture();
    let mut all =
        headers(&[("authorization", "Bearer x"), ("x-remote-user", "a"), ("x-remote-extra-k", "v"), ("accept", "*/*")]);
    f.chain.clear(&mut all);
    assert_eq!(all.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
}

#[test]
fn the_client_learns_nothing_of_the_reasons() {
    let status = oarlock_meta::Status::from(Unauthorized { reasons: vec!["secret".to_owned()] });
    assert_eq!((status.code, status.message.as_str()), (401, "Unauthorized"));
}

#[test]
fn badly_encoded_keys_stay_as_they_are() {
    assert_eq!(unescape("a%2Fb"), "a/b");
    for odd in ["%", "%4", "%zz", "a%ff"] {
        assert_eq!(unescape(odd), odd);
    }
}

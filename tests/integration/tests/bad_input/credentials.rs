//! Certificates and tokens that no authority has issued: 401 for a wrong one on every path, `system:anonymous` for none.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oarlock_pki::{Authority, KeyPair, Leaf, SigningKey, Subject, UnixTime};
use oarlock_testkit::http::Who;
use oarlock_testkit::{Cluster, read};
use serde_json::{Value, json};

use super::{healthy, refused};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The real clock's seconds: the server's clock is the machine's.
#[expect(clippy::disallowed_methods, reason = "tests watch a real process in real time")]
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

fn certificate(authority: &Authority, issued: Duration, lifetime: Duration) -> Who {
    let leaf = Leaf::client(Subject::user("eve", ["system:masters"])).good_for(lifetime);
    let issued = authority.issue(&leaf, UnixTime::since_unix_epoch(issued)).unwrap();
    Who::Certificate(issued.certificate, issued.key)
}

#[test]
fn certificates_of_others_and_of_yesterday_are_nobodys() {
    let cluster = Cluster::up(&["--disable", "scheduler,controller-manager,kubelet"]);
    let pki = cluster.data_dir().pki();
    let own = Authority::from_pem(&read(&pki.join("ca.crt")), &read(&pki.join("ca.key"))).unwrap();
    let now = now();
    let good = cluster.http(certificate(&own, now, DAY));
    assert_eq!(good.get("/api/v1/secrets").code, 200);
    let expired = cluster.http(certificate(&own, now - 2 * DAY, DAY));
    // An authority with the name of the cluster's authority and another key.
    let foreign = Authority::create(own.common_name(), UnixTime::since_unix_epoch(now)).unwrap();
    let foreign = cluster.http(certificate(&foreign, now, DAY));
    for http in [&expired, &foreign] {
        for path in ["/api/v1/secrets", "/version", "/healthz", "/nothing"] {
            refused(&http.get(path), 401, "Unauthorized", "Unauthorized");
        }
    }
    healthy(&good);
}

fn token(key: &SigningKey, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&json!({"alg": SigningKey::ALGORITHM, "kid": key.id()})), part(claims));
    let signature = key.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[test]
fn tokens_that_are_wrong_in_any_way_are_refused() {
    let cluster = Cluster::up(&["--disable", "scheduler,controller-manager,kubelet"]);
    let kubectl = cluster.kubectl();
    kubectl.ok("create serviceaccount robot");
    let good = kubectl.ok("create token robot").trim().to_owned();
    let own = SigningKey::new(&KeyPair::from_pem(&read(&cluster.data_dir().pki().join("sa.key"))).unwrap()).unwrap();
    let claims: Value =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(good.split('.').nth(1).unwrap()).unwrap()).unwrap();
    let with = |field: &str, value: Value| {
        let mut claims = claims.clone();
        claims[field] = value;
        claims
    };
    let ask = |token: String| cluster.http(Who::Token(token)).get("/version");
    assert_eq!(ask(good.clone()).code, 200);
    assert_eq!(
        ask(token(&own, &claims)).code,
        200,
        "the test's own signature is right, so what follows tests the claims"
    );
    let seconds = now().as_secs();
    let other = SigningKey::new(&KeyPair::generate().unwrap()).unwrap();
    let (head, tail) = good.rsplit_once('.').unwrap();
    let bad = [
        ("nonsense", "nonsense".to_owned()),
        ("expired", token(&own, &with("exp", json!(seconds - 3600)))),
        ("of tomorrow", token(&own, &with("nbf", json!(seconds + 24 * 3600)))),
        ("of another issuer", token(&own, &with("iss", json!("https://elsewhere")))),
        ("for another audience", token(&own, &with("aud", json!(["elsewhere"])))),
        ("of another key", token(&other, &claims)),
        ("without a signature", format!("{head}.")),
        (
            "with another's body",
            format!(
                "{}.{}.{tail}",
                head.split('.').next().unwrap(),
                URL_SAFE_NO_PAD.encode(with("sub", json!("system:serviceaccount:kube-system:x")).to_string())
            ),
        ),
        (
            "of no algorithm",
            format!("{}.{}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), head.split('.').nth(1).unwrap()),
        ),
    ];
    for (what, bad) in bad {
        eprintln!("a token {what}");
        refused(&ask(bad), 401, "Unauthorized", "Unauthorized");
    }
    // A token becomes invalid when its ServiceAccount is deleted.
    kubectl.ok("delete serviceaccount robot");
    oarlock_testkit::wait::eventually("the token is refused", || match ask(good.clone()) {
        answer if answer.code == 401 => Ok(()),
        answer => Err(answer),
    });
    healthy(&cluster.http(Who::Admin));
}

#[test]
fn anonymous_sees_health_and_version_and_nothing_else() {
    let cluster = Cluster::api_only();
    let nobody = cluster.http(Who::Anonymous);
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(nobody.get(path).code, 200, "{path}");
    }
    refused(
        &nobody.get("/api/v1/pods"),
        403,
        "Forbidden",
        "pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" at the cluster scope",
    );
    for path in [
        "/",
        "/api",
        "/apis",
        "/openapi/v2",
        "/openapi/v3",
        "/metrics",
        "/nothing",
        "/api/v1/namespaces/default/secrets",
    ] {
        refused(&nobody.get(path), 403, "Forbidden", "forbidden: User \"system:anonymous\" cannot");
    }
}

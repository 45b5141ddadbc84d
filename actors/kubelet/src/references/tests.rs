use std::time::Duration;

use async_trait::async_trait;
use oarlock_client::{
    Call, ListOptions, Object, RawReply, RawRequest, Reply, Request, Transport, WatchStream, decode, encode,
};
use oarlock_meta::Time;
use oarlock_runtime::{Universe, clock};
use oarlock_schema::{Resource, type_of_kind};
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::testing::Api;

fn sweep<F: Future<Output = ()>>(test: impl Fn() -> F) {
    Universe::sweep(0..1, test);
}

fn value(found: &Found, name: &str) -> Result<String, PodError> {
    let reference = Reference::config_map(name);
    let data = found.data(&reference, false)?.ok_or_else(|| PodError::NotReady("not there".to_owned()))?;
    data.text("k").unwrap_or_else(|| Err(PodError::NotReady("no key".to_owned())))
}

#[test]
fn an_object_is_read_once_and_again_when_it_is_old() {
    sweep(|| async {
        let api = Api::default();
        api.create("configmaps", &json!({"metadata": {"name": "m", "namespace": "shop"}, "data": {"k": "1"}}));
        let references = References::new(api.client(), Duration::from_secs(30));
        let read = || references.find("shop", [Reference::config_map("m")]);
        let (one, other) = futures::join!(read(), read());
        assert_eq!((value(&one, "m"), value(&other, "m")), (Ok("1".to_owned()), Ok("1".to_owned())));
        assert_eq!(api.calls("get configmaps"), 1, "readers share a call");
        api.patch("configmaps", ("shop", "m"), &json!({"data": {"k": "2"}}));
        clock::sleep(Duration::from_secs(29)).await;
        assert_eq!(value(&read().await, "m"), Ok("1".to_owned()));
        clock::sleep(Duration::from_secs(2)).await;
        assert_eq!(value(&read().await, "m"), Ok("2".to_owned()));
        assert_eq!(api.calls("get configmaps"), 2);
    });
}

#[test]
fn a_pod_that_is_new_sees_what_is_new() {
    sweep(|| async {
        let api = Api::default();
        api.create("configmaps", &json!({"metadata": {"name": "m", "namespace": "shop"}, "data": {"k": "1"}}));
        let references = References::new(api.client(), Duration::from_secs(30));
        let read = || references.find("shop", [Reference::config_map("m")]);
        assert_eq!(value(&read().await, "m"), Ok("1".to_owned()));
        api.patch("configmaps", ("shop", "m"), &json!({"data": {"k": "2"}}));
        let pod = json!({"metadata": {"name": "p", "namespace": "shop"},
            "spec": {"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}]}]}});
        let pod = decode(type_of_kind("", "v1", "Pod").unwrap(), pod.to_string().as_bytes()).unwrap();
        references.registered(crate::downward::pod(&pod));
        assert_eq!(value(&read().await, "m"), Ok("2".to_owned()));
    });
}

#[test]
fn what_is_immutable_is_never_read_again_and_what_is_gone_is_gone() {
    sweep(|| async {
        let api = Api::default();
        let map = |name: &str, immutable| json!({"metadata": {"name": name, "namespace": "shop"}, "data": {"k": "1"}, "immutable": immutable});
        api.create("configmaps", &map("fixed", true));
        api.create("configmaps", &map("m", false));
        let references = References::new(api.client(), Duration::from_secs(30));
        let read = |name| references.find("shop", [Reference::config_map(name)]);
        for name in ["fixed", "m"] {
            assert_eq!(value(&read(name).await, name), Ok("1".to_owned()));
        }
        api.delete("configmaps", "shop", "m", None);
        clock::sleep(Duration::from_secs(3600)).await;
        assert_eq!(value(&read("fixed").await, "fixed"), Ok("1".to_owned()));
        assert_eq!(api.calls("get configmaps"), 2);
        assert!(value(&read("m").await, "m").unwrap_err().to_string().contains("not found"));
    });
}

#[test]
fn while_the_api_is_away_the_last_state_serves() {
    sweep(|| async {
        let api = Api::default();
        api.create("configmaps", &json!({"metadata": {"name": "m", "namespace": "shop"}, "data": {"k": "1"}}));
        let references = References::new(api.client(), Duration::from_secs(30));
        let read = |name| references.find("shop", [Reference::config_map(name)]);
        assert_eq!(value(&read("m").await, "m"), Ok("1".to_owned()));
        api.down(true);
        clock::sleep(Duration::from_secs(120)).await;
        assert_eq!(value(&read("m").await, "m"), Ok("1".to_owned()));
        assert!(value(&read("other").await, "other").is_err());
    });
}

/// Answers TokenRequests; each token carries a number.
#[derive(Clone, Default)]
struct Issuer {
    asked: Arc<Mutex<Vec<serde_json::Value>>>,
    down: Arc<Mutex<bool>>,
}

#[async_trait]
impl Transport for Issuer {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let Call::Create(body, _) = request.call else { panic!("no create") };
        assert_eq!((request.resource.plural, request.subresource), ("serviceaccounts", "token"));
        if *self.down.lock() {
            return Err(Status::service_unavailable("away"));
        }
        let mut body: serde_json::Value = serde_json::from_slice(&encode(&body)).unwrap();
        let number = {
            let mut asked = self.asked.lock();
            asked.push(body.clone());
            asked.len()
        };
        let ends = clock::wall().as_second() + body["spec"]["expirationSeconds"].as_i64().unwrap();
        let ends = Time::from_unix(ends).to_string();
        body["status"] = json!({"token": format!("token-{number}"), "expirationTimestamp": ends});
        let ty = type_of_kind("authentication.k8s.io", "v1", "TokenRequest").unwrap();
        let object = Object::new(ty, body.to_string().into(), oarlock_meta::Revision::ZERO);
        Ok(Reply::Object { object, created: true })
    }

    async fn watch(&self, _: &'static Resource, _: &str, _: ListOptions) -> Result<WatchStream, Status> {
        Err(Status::internal_error("no watches here"))
    }

    async fn raw(&self, _: RawRequest) -> Result<RawReply, Status> {
        Err(Status::internal_error("no raw requests here"))
    }
}

fn wish(audience: &str, lifetime: i64) -> TokenWish {
    TokenWish {
        namespace: "shop".into(),
        account: "robot".into(),
        pod: ("web".into(), "u1".into()),
        audience: audience.into(),
        lifetime,
    }
}

#[test]
fn a_token_is_bound_to_its_pod_kept_and_renewed_in_time() {
    sweep(|| async {
        let issuer = Issuer::default();
        let references = References::new(Client::new(Arc::new(issuer.clone())), Duration::from_secs(30));
        let token = |audience: &'static str| {
            let references = references.clone();
            async move { references.token(&wish(audience, 3600)).await.map(|token| token.to_string()) }
        };
        assert_eq!(token("").await.as_deref(), Ok("token-1"));
        assert_eq!(token("vault").await.as_deref(), Ok("token-2"), "audiences have tokens of their own");
        let asked = issuer.asked.lock()[1]["spec"].clone();
        assert_eq!(asked["boundObjectRef"], json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1"}));
        assert_eq!((asked["audiences"].clone(), asked["expirationSeconds"].clone()), (json!(["vault"]), json!(3600)));
        clock::sleep(Duration::from_secs(2860)).await;
        assert_eq!(token("").await.as_deref(), Ok("token-1"));
        clock::sleep(Duration::from_secs(30)).await;
        assert_eq!(token("").await.as_deref(), Ok("token-3"));
    });
}

#[test]
fn a_token_that_cannot_be_renewed_serves_until_it_ends_and_goes_with_its_pod() {
    sweep(|| async {
        let issuer = Issuer::default();
        let references = References::new(Client::new(Arc::new(issuer.clone())), Duration::from_secs(30));
        let token = || async { references.token(&wish("", 600)).await.map(|token| token.to_string()) };
        *issuer.down.lock() = true;
        assert_eq!(token().await.unwrap_err().to_string(), "failed to fetch token: away");
        *issuer.down.lock() = false;
        assert_eq!(token().await.as_deref(), Ok("token-1"));
        *issuer.down.lock() = true;
        clock::sleep(Duration::from_secs(590)).await;
        assert_eq!(token().await.as_deref(), Ok("token-1"));
        clock::sleep(Duration::from_secs(11)).await;
        assert_eq!(token().await.unwrap_err().to_string(), "token \"robot\"/\"shop\" expired and refresh failed: away");
        *issuer.down.lock() = false;
        assert_eq!(token().await.as_deref(), Ok("token-2"));
        references.forget_pod("u1");
        assert_eq!(token().await.as_deref(), Ok("token-3"));
    });
}

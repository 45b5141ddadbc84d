use std::sync::Arc;

use oarlock_client::{
    Call, ListOptions, Object, RawReply, RawRequest, Reply, Request, Transport, WatchStream, decode, encode,
};
use oarlock_meta::{Revision, Status};
use oarlock_schema::Resource;
use serde_json::json;

use super::*;
use crate::server::identifiers::Identifiers;

/// An API server whose tokens are the names of their users, valid for the audience `tunnel`.
struct Reviewer {
    /// Whether reviews are for the audiences that they name.
    knows_audiences: bool,
}

#[async_trait]
impl Transport for Reviewer {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let Call::Create(review, _) = request.call else { return Err(Status::internal_error("only reviews")) };
        let text = |path: &[&str]| review.at(path).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        let review = encode(&review);
        let user = text(&["spec", "token"]);
        if user == "broken" {
            return Err(Status::internal_error("no etcd"));
        }
        let is_for_tunnel = String::from_utf8_lossy(&review).contains("\"audiences\":[\"tunnel\"]");
        let is_valid = (is_for_tunnel || !self.knows_audiences) && user != "expired";
        let mut status = json!({"authenticated": is_valid, "user": {"username": user}});
        if self.knows_audiences {
            status["audiences"] = json!(["tunnel"]);
        }
        let answer = decode(request.resource.ty, json!({"status": status}).to_string().as_bytes())?;
        let object = Object::new(answer.ty(), encode(&answer), Revision(1));
        Ok(Reply::Object { object, created: true })
    }

    async fn watch(&self, _: &'static Resource, _: &str, _: ListOptions) -> Result<WatchStream, Status> {
        Err(Status::internal_error("only reviews"))
    }

    async fn raw(&self, _: RawRequest) -> Result<RawReply, Status> {
        Err(Status::internal_error("only reviews"))
    }
}

async fn refusal(reviewer: Reviewer, audience: &str, token: Option<&str>) -> Option<String> {
    let client = Client::new(Arc::new(reviewer));
    let check = ServiceAccountToken::new(client, "kube-system", "agent", audience.to_owned());
    let identifiers = Identifiers::default();
    let credentials = Credentials { certificates: &[], token, agent: "a", identifiers: &identifiers };
    check.authenticate(&credentials).await.err().map(|denied| denied.0)
}

#[tokio::test]
async fn only_a_valid_token_of_the_service_account_for_the_audience_is_admitted() {
    let agent = "system:serviceaccount:kube-system:agent";
    let refusal = |audience, token| refusal(Reviewer { knows_audiences: true }, audience, token);
    assert_eq!(refusal("tunnel", Some(agent)).await, None);
    assert_eq!(refusal("tunnel", None).await.as_deref(), Some("no token"));
    let invalid = |audience: &str| Some(format!("the token is not valid for the audience {audience:?}"));
    assert_eq!(refusal("tunnel", Some("expired")).await, invalid("tunnel"));
    assert_eq!(refusal("other", Some(agent)).await, invalid("other"));
    let other = refusal("tunnel", Some("system:serviceaccount:default:agent")).await.unwrap();
    assert!(other.contains("one of system:serviceaccount:default:agent"), "{other}");
    let broken = refusal("tunnel", Some("broken")).await.unwrap();
    assert!(broken.contains("not reviewed: ") && broken.contains("no etcd"), "{broken}");
}

#[tokio::test]
async fn a_review_that_names_no_audience_admits_nobody() {
    let refused =
        refusal(Reviewer { knows_audiences: false }, "tunnel", Some("system:serviceaccount:kube-system:agent"));
    assert_eq!(refused.await.as_deref(), Some("the token is not valid for the audience \"tunnel\""));
}

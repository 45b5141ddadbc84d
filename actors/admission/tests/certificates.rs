//! Who may approve and sign which requests, which subjects are forbidden, and what kubelets may request (texts as a live v1.35.0 server gave them).

use crate::common::{Ask, Only, World, decode, resource};
use base64::Engine as _;
use oarlock_admission::Operation;
use oarlock_meta::Status;
use serde_json::{Value, json};

const CSRS: &str = "certificatesigningrequests";

const MASTER: &str = include_str!("data/master.csr");
const MASTER_TOO: &str = include_str!("data/master-too.csr");
const PLAIN: &str = include_str!("data/plain.csr");
const NODE_1: &str = include_str!("data/node1.csr");
const NODE_2: &str = include_str!("data/node2.csr");

fn encoded(pem: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(pem)
}

fn request(signer: &str, pem: &str, status: &Value) -> Value {
    json!({
        "metadata": {"name": "a"},
        "spec": {"signerName": signer, "request": encoded(pem), "usages": ["client auth"]},
        "status": status,
    })
}

async fn ask(world: &World, by: (&str, &[String]), endpoint: &str, new: &Value, old: Option<&Value>) -> Option<Status> {
    let row = resource(CSRS);
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let ask = Ask {
        operation,
        resource: row,
        subresource: endpoint,
        namespace: "",
        name: if old.is_some() { "a" } else { "" },
        user: by.0,
        groups: by.1,
    };
    let old = old.map(|old| decode(old, row.ty));
    world.ask(&ask, Some(decode(new, row.ty)), old.as_ref()).await.err()
}

fn text(status: Option<Status>) -> (u16, String) {
    status.map_or((200, String::new()), |status| (status.code, status.message))
}

const FORBIDDEN: &str = "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: ";

#[tokio::test]
async fn a_decision_and_a_certificate_need_the_right_for_the_signer() {
    let plain = request("example.com/foo", "", &json!({}));
    let approved = request("example.com/foo", "", &json!({"conditions": [{"type": "Approved", "status": "True"}]}));
    let signed = request("example.com/foo", "", &json!({"certificate": "eA=="}));
    let labelled = {
        let mut labelled = plain.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        labelled
    };
    // The stored signer counts, not the one in the body.
    let mut elsewhere = approved.clone();
    elsewhere["spec"]["signerName"] = json!("mine.com/foo");
    for (endpoint, verb, done) in [("approval", "approve", &approved), ("status", "sign", &signed)] {
        let refused =
            (403, format!("{FORBIDDEN}user not permitted to {verb} requests with signerName \"example.com/foo\""));
        let by = ("eve", &[][..]);
        let mut world = World::new();
        assert_eq!(text(ask(&world, by, endpoint, done, Some(&plain)).await), refused, "without an authorizer");
        for (rights, name, allowed) in [
            (verb, "example.com/foo", true),
            (verb, "example.com/*", true),
            (verb, "example.com/bar", false),
            (verb, "*", false),
            ("update", "example.com/foo", false),
        ] {
            world.rights = Some(Only(rights, "signers", Some(name)));
            let answer = text(ask(&world, by, endpoint, done, Some(&plain)).await);
            assert_eq!(answer, if allowed { (200, String::new()) } else { refused.clone() }, "{rights} {name}");
        }
        world.rights = Some(Only(verb, "signers", Some("mine.com/foo")));
        assert_eq!(text(ask(&world, by, endpoint, &elsewhere, Some(&plain)).await).0, 403);
        // A write that changes neither certificate nor conditions signs nothing; every use of `approval` is a decision.
        world.rights = None;
        let answer = text(ask(&world, by, endpoint, &labelled, Some(&plain)).await);
        assert_eq!(answer.0, if endpoint == "status" { 200 } else { 403 });
    }
}

#[tokio::test]
async fn nobody_asks_to_be_a_master() {
    let world = World::new();
    let by = ("admin", &["system:masters".to_owned()][..]);
    let client = "kubernetes.io/kube-apiserver-client";
    let why = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    for (signer, pem, expected) in [
        (client, MASTER, (403, format!("{FORBIDDEN}{why}"))),
        (client, MASTER_TOO, (403, format!("{FORBIDDEN}{why}"))),
        (client, PLAIN, (200, String::new())),
        ("example.com/foo", MASTER, (200, String::new())),
    ] {
        let new = request(signer, pem, &json!({}));
        assert_eq!(text(ask(&world, by, "", &new, None).await), expected, "{signer}\n{pem}");
    }
}

#[tokio::test]
async fn a_kubelet_asks_for_certificates_in_its_own_name() {
    let world = World::new();
    let groups = ["system:nodes".to_owned()];
    let by = ("system:node:n1", &groups[..]);
    let refused = (403, format!("{FORBIDDEN}can only create a node CSR with CN=system:node:n1"));
    let kubelet = "kubernetes.io/kube-apiserver-client-kubelet";
    for (signer, pem, expected) in [
        (kubelet, NODE_1, (200, String::new())),
        (kubelet, NODE_2, refused.clone()),
        ("kubernetes.io/kubelet-serving", NODE_2, refused),
        ("example.com/foo", NODE_2, (200, String::new())),
    ] {
        let new = request(signer, pem, &json!({}));
        assert_eq!(text(ask(&world, by, "", &new, None).await), expected, "{signer}\n{pem}");
    }
    let nonsense = text(ask(&world, by, "", &request(kubelet, "x", &json!({})), None).await);
    assert_eq!(nonsense.0, 403, "{nonsense:?}");
}

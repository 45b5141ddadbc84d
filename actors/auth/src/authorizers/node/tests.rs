//! The graph follows the pods, and the texts are upstream's.

use oarlock_meta::FieldSelector;
use proptest::prelude::*;

use super::*;
use crate::user::{NODES, UserInfo};

fn kubelet(node: &str) -> UserInfo {
    UserInfo::new(format!("system:node:{node}"), [NODES])
}

fn pod(name: &str, node: &str) -> PodRefs {
    PodRefs {
        namespace: "ns".into(),
        name: name.into(),
        node: node.into(),
        mirror: false,
        service_account: "sa".into(),
        secrets: vec!["s".into(), "s".into(), "".into()],
        config_maps: vec!["c".into()],
        claims: vec!["claim".into()],
        resource_claims: vec!["device".into()],
    }
}

fn ask(authorizer: &NodeAuthorizer, node: &str, what: &str) -> Result<(), String> {
    let user = kubelet(node);
    let parts: Vec<&str> = what.split(' ').collect();
    let (verb, target) = (parts[0], parts[1]);
    let (group, resource) = target.split_once(':').unwrap_or(("", target));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let get = |key: &str| parts.iter().find_map(|p| p.strip_prefix(key)).unwrap_or("");
    let fields = FieldSelector::parse(get("fields=")).unwrap();
    let attributes = Attributes {
        subresource,
        namespace: get("ns="),
        name: get("name="),
        fields: Some(&fields),
        ..Attributes::resource(&user, verb, group, resource)
    };
    match authorizer.authorize(&attributes) {
        Decision::Allow(_) => Ok(()),
        Decision::NoOpinion(reason) => Err(reason),
        Decision::Deny(reason) => panic!("the node authorizer denies nothing: {reason}"),
    }
}

#[test]
fn a_node_reads_what_its_pods_refer_to_and_no_longer_than_that() {
    let authorizer = NodeAuthorizer::default();
    let all = [
        "get secrets ns=ns name=s",
        "list secrets ns=ns name=s",
        "watch configmaps ns=ns name=c",
        "get persistentvolumeclaims ns=ns name=claim",
        "patch persistentvolumeclaims/status ns=ns name=claim",
        "get resource.k8s.io:resourceclaims ns=ns name=device",
        "get serviceaccounts ns=ns name=sa",
        "create serviceaccounts/token ns=ns name=sa",
        "get pods ns=ns name=p",
        "get persistentvolumes name=pv",
        "get secrets ns=vault name=pv-secret",
    ];
    authorizer.upsert_volume("pv", Some(("ns".into(), "claim".into())), vec![("vault".into(), "pv-secret".into())]);
    let refused = Err("no relationship found between node 'n1' and this object".to_owned());
    for what in all {
        assert_eq!(ask(&authorizer, "n1", what), refused, "{what}");
    }
    authorizer.upsert_pod(pod("p", "n1"));
    authorizer.upsert_pod(pod("q", "n1"));
    for what in all {
        assert_eq!(ask(&authorizer, "n1", what), Ok(()), "{what}");
        assert!(ask(&authorizer, "n2", what).is_err(), "{what}");
    }
    authorizer.delete_pod("ns", "q");
    assert_eq!(ask(&authorizer, "n1", all[0]), Ok(()));
    authorizer.delete_volume("pv");
    assert!(ask(&authorizer, "n1", all[10]).is_err());
    authorizer.delete_pod("ns", "p");
    for what in all {
        assert!(ask(&authorizer, "n1", what).is_err(), "{what}");
    }
    assert!(authorizer.graph.read().is_empty());
}

#[test]
fn a_mirror_pod_grants_nothing_but_itself() {
    let authorizer = NodeAuthorizer::default();
    authorizer.upsert_pod(PodRefs { mirror: true, ..pod("p", "n1") });
    assert_eq!(ask(&authorizer, "n1", "get pods ns=ns name=p"), Ok(()));
    assert!(ask(&authorizer, "n1", "get secrets ns=ns name=s").is_err());
}

/// The reasons are those of kube-apiserver 1.35.
#[test]
fn refusals_say_why_in_upstreams_words() {
    let a = NodeAuthorizer::default();
    for (what, reason) in [
        ("list pods ns=ns", "can only list/watch pods with spec.nodeName field selector"),
        ("list pods fields=spec.nodeName=n2", "can only list/watch pods with spec.nodeName field selector"),
        ("list pods fields=spec.nodeName!=n1", "can only list/watch pods with spec.nodeName field selector"),
        ("get nodes name=n2", "node 'n1' cannot read 'n2', only its own Node object"),
        ("list nodes", "node 'n1' cannot read all nodes, only its own Node object"),
        ("delete nodes name=n1", ""),
        ("list secrets ns=ns", "No Object name found"),
        ("list secrets", "can only read namespaced object of this type"),
        ("delete secrets ns=ns name=s", "can only read resources of this type"),
        (
            "get coordination.k8s.io:leases ns=default name=n1",
            "can only access leases in the \"kube-node-lease\" system namespace",
        ),
        (
            "get coordination.k8s.io:leases ns=kube-node-lease name=n2",
            "can only access node lease with the same name as the requesting node",
        ),
        (
            "list coordination.k8s.io:leases ns=kube-node-lease",
            "can only get, create, update, patch, or delete a node lease",
        ),
        ("get storage.k8s.io:csinodes name=n2", "can only access CSINode with the same name as the requesting node"),
        (
            "list resource.k8s.io:resourceslices",
            "can only list/watch/deletecollection resourceslices with nodeName field selector",
        ),
        ("list persistentvolumes", "can only get individual resources of this type"),
        ("create serviceaccounts ns=ns name=x", "can only create token subresource of serviceaccount"),
        ("create deployments ns=ns", ""),
    ] {
        assert_eq!(ask(&a, "n1", what), Err(reason.to_owned()), "{what}");
    }
    for what in [
        "create nodes",
        "get nodes name=n1",
        "patch nodes/status name=n1",
        "watch pods fields=spec.nodeName=n1",
        "create pods/eviction ns=ns name=p",
        "create events ns=ns",
        "patch events.k8s.io:events ns=ns",
        "list services",
        "watch node.k8s.io:runtimeclasses",
        "create coordination.k8s.io:leases ns=kube-node-lease",
        "update coordination.k8s.io:leases ns=kube-node-lease name=n1",
        "create certificates.k8s.io:certificatesigningrequests",
        "list storage.k8s.io:csidrivers",
        "get storage.k8s.io:csinodes name=n1",
    ] {
        assert_eq!(ask(&a, "n1", what), Ok(()), "{what}");
    }
}

#[test]
fn nobody_but_a_named_node_is_judged() {
    let authorizer = NodeAuthorizer::default();
    for (user, reason) in [
        (UserInfo::new("system:node:n1", ["other"]), ""),
        (UserInfo::new("alice", [NODES]), ""),
        (kubelet(""), "unknown node for user \"system:node:\""),
    ] {
        let decision = authorizer.authorize(&Attributes::resource(&user, "list", "", "services"));
        assert!(matches!(&decision, Decision::NoOpinion(r) if r == reason), "{decision:?}");
    }
}

#[test]
fn attachments_and_slices_have_one_node() {
    let a = NodeAuthorizer::default();
    a.upsert_attachment("va", "n1");
    a.upsert_slice("slice", "n1");
    assert_eq!(ask(&a, "n1", "get storage.k8s.io:volumeattachments name=va"), Ok(()));
    assert!(ask(&a, "n2", "get storage.k8s.io:volumeattachments name=va").is_err());
    assert_eq!(ask(&a, "n1", "delete resource.k8s.io:resourceslices name=slice"), Ok(()));
    a.upsert_attachment("va", "n2");
    assert!(ask(&a, "n1", "get storage.k8s.io:volumeattachments name=va").is_err());
    a.delete_attachment("va");
    a.delete_slice("slice");
    assert!(a.graph.read().is_empty());
}

proptest! {
    /// After any sequence of changes the graph equals one built from the existing pods.
    #[test]
    fn the_graph_equals_one_made_anew(steps in proptest::collection::vec((0_u8..4, 0_u8..4, 0_u8..3, any::<bool>()), 0..60)) {
        let kept = NodeAuthorizer::default();
        let mut pods = std::collections::BTreeMap::new();
        for (name, node, secret, delete) in steps {
            let name = format!("p{name}");
            if delete {
                kept.delete_pod("ns", &name);
                pods.remove(&name);
            } else {
                let mut pod = pod(&name, &if node == 3 { String::new() } else { format!("n{node}") });
                pod.secrets = vec![format!("s{secret}").into()];
                kept.upsert_pod(pod.clone());
                pods.insert(name, pod);
            }
            for node in 0..3 {
                for secret in 0..3 {
                    let node = format!("n{node}");
                    let secret = format!("s{secret}");
                    let expected = pods.values().any(|p| p.node == node && p.secrets.iter().any(|s| *s == secret));
                    let answer = ask(&kept, &node, &format!("get secrets ns=ns name={secret}"));
                    prop_assert_eq!(answer.is_ok(), expected);
                }
            }
        }
        for name in pods.keys() {
            kept.delete_pod("ns", name);
        }
        prop_assert!(kept.graph.read().is_empty());
    }
}

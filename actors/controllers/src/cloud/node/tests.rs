use oarlock_cloud::wire::{Address, Instance};
use oarlock_informer::{Item, Key, ObjMeta};

use super::plan::*;
use crate::project::CloudNode;

fn address(kind: &str, address: &str) -> Address {
    Address { r#type: kind.into(), address: address.into() }
}

fn node(provider_id: &str, annotations: &[(&str, &str)]) -> Item<CloudNode> {
    let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let meta = ObjMeta {
        key: Key::cluster("n1"),
        annotations: pairs(annotations),
        labels: pairs(&[("example.org/rack", "7")]),
        ..ObjMeta::default()
    };
    let addresses = vec![address("Hostname", "n1"), address("InternalIP", "10.0.0.9")];
    Item { meta, value: CloudNode { provider_id: provider_id.into(), addresses, ..CloudNode::default() } }
}

fn instance() -> Instance {
    Instance {
        provider_id: "fake://1".into(),
        instance_type: "m1".into(),
        zone: "z1".into(),
        region: String::new(),
        addresses: vec![
            address("InternalIP", "10.0.0.1"),
            address("InternalIP", "10.0.0.2"),
            address("ExternalIP", "192.0.2.1"),
        ],
        ..Instance::default()
    }
}

#[test]
fn a_new_node_gets_its_provider_id_and_labels_under_both_names() {
    let known = initial(&node("", &[]), &instance()).unwrap();
    let labels: Vec<_> = known.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(known.provider_id, "fake://1");
    assert_eq!(
        labels,
        [
            ("beta.kubernetes.io/instance-type", "m1"),
            ("node.kubernetes.io/instance-type", "m1"),
            ("failure-domain.beta.kubernetes.io/zone", "z1"),
            ("topology.kubernetes.io/zone", "z1"),
        ]
    );
    assert_eq!(initial(&node("own://7", &[]), &instance()).unwrap().provider_id, "own://7", "it stays");
    let nameless = Instance { provider_id: String::new(), ..instance() };
    assert!(initial(&node("", &[]), &nameless).is_err() && initial(&node("own://7", &[]), &nameless).is_ok());
}

#[test]
fn addresses_are_the_clouds_with_the_nodes_own_hostname() {
    let texts = |addresses: Vec<Address>| addresses.into_iter().map(|one| one.address).collect::<Vec<_>>().join(" ");
    assert_eq!(texts(addresses(&node("", &[]), &instance()).unwrap()), "10.0.0.1 10.0.0.2 192.0.2.1 n1");
    let named = Instance { addresses: vec![address("Hostname", "i-1")], ..instance() };
    assert_eq!(texts(addresses(&node("", &[]), &named).unwrap()), "i-1");
    assert_eq!(texts(addresses(&node("", &[]), &Instance::default()).unwrap()), "");
}

#[test]
fn an_address_that_the_kubelet_was_told_is_the_only_one_of_its_type_if_the_cloud_knows_it() {
    let told = |ip: &str| addresses(&node("", &[("alpha.kubernetes.io/provided-node-ip", ip)]), &instance());
    let texts = |addresses: Vec<Address>| addresses.into_iter().map(|one| one.address).collect::<Vec<_>>().join(" ");
    assert_eq!(texts(told("10.0.0.2").unwrap()), "10.0.0.2 192.0.2.1 n1");
    let error = told("10.9.9.9").unwrap_err();
    assert!(error.contains("10.9.9.9"), "{error}");
    let new = node("", &[("alpha.kubernetes.io/provided-node-ip", "10.9.9.9")]);
    assert_eq!(initial(&new, &instance()).unwrap_err(), error, "no pods come before that is clear");
}

#[test]
fn labels_of_the_providers_own_are_set_and_kubernetes_are_not_its_own() {
    let labels = [
        ("example.org/rack", "8"),
        ("a.kubernetes.io/x", "1"),
        ("k8s.io/y", "1"),
        ("notk8s.io/z", "1"),
        ("plain", "1"),
    ];
    let additional_labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let told = Instance { additional_labels, ..instance() };
    assert_eq!(additional(&node("", &[]), &told), [("example.org/rack", "8"), ("notk8s.io/z", "1"), ("plain", "1")]);
    let same = Instance { additional_labels: [("example.org/rack".to_owned(), "7".to_owned())].into(), ..instance() };
    assert!(additional(&node("", &[]), &same).is_empty());
}

//! Objects of a real server, read into the authorizers.

use oarlock_codec::{Mode, json};
use oarlock_schema::type_of_kind;

use super::*;
use crate::authorizers::rbac::PolicyRule;
use crate::user::{MASTERS, NODES};
use crate::{Attributes, UserInfo};

fn object(text: &str) -> Obj {
    let gvk = json::peek_gvk(text.as_bytes()).unwrap();
    let gvk = gvk.or(&oarlock_meta::GroupVersionKind::new("", "", ""));
    let ty = type_of_kind(&gvk.group, &gvk.version, &gvk.kind).unwrap();
    json::decode(text.as_bytes(), ty, Mode::Lenient).unwrap().value
}

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"ns","name":"p"},"spec":{"nodeName":"n1","serviceAccountName":"sa",
  "imagePullSecrets":[{"name":"pull"}],
  "initContainers":[{"name":"i","envFrom":[{"secretRef":{"name":"init-from"}}]}],
  "containers":[{"name":"c","env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"env","key":"k"}}},{"name":"B","valueFrom":{"configMapKeyRef":{"name":"cm-env","key":"k"}}}],"envFrom":[{"configMapRef":{"name":"cm-from"}}]}],
  "ephemeralContainers":[{"name":"e","envFrom":[{"secretRef":{"name":"debug"}}]}],
  "volumes":[{"name":"a","secret":{"secretName":"vol"}},{"name":"b","configMap":{"name":"cm-vol"}},
    {"name":"c","projected":{"sources":[{"secret":{"name":"proj"}},{"configMap":{"name":"cm-proj"}},{"serviceAccountToken":{"path":"t"}}]}},
    {"name":"d","persistentVolumeClaim":{"claimName":"claim"}},{"name":"scratch","ephemeral":{"volumeClaimTemplate":{"spec":{}}}},
    {"name":"f","csi":{"driver":"x","nodePublishSecretRef":{"name":"csi"}}},{"name":"g","rbd":{"monitors":[],"image":"i","secretRef":{"name":"rbd"}}}],
  "resourceClaims":[{"name":"r1","resourceClaimName":"direct"},{"name":"r2","resourceClaimTemplateName":"t"},{"name":"r3","resourceClaimTemplateName":"t"}]},
  "status":{"resourceClaimStatuses":[{"name":"r2","resourceClaimName":"made"}],"extendedResourceClaimStatus":{"resourceClaimName":"extended","requestMappings":[]}}}"#;

#[test]
fn every_reference_of_a_pod_is_seen() {
    let pod = object(POD);
    let mut refs = pod_refs(pod.view().unwrap());
    refs.secrets.sort();
    refs.config_maps.sort();
    assert_eq!(refs.secrets, ["csi", "debug", "env", "init-from", "proj", "pull", "rbd", "vol"]);
    assert_eq!(refs.config_maps, ["cm-env", "cm-from", "cm-proj", "cm-vol"]);
    assert_eq!(refs.claims, ["claim", "p-scratch"]);
    assert_eq!(refs.resource_claims, ["direct", "made", "extended"]);
    assert_eq!((refs.node.as_str(), refs.service_account.as_str()), ("n1", "sa"));
}

#[test]
fn a_pod_without_a_node_and_a_mirror_pod_refer_to_nothing() {
    let unbound = object(&POD.replace(r#""nodeName":"n1","#, ""));
    assert!(pod_refs(unbound.view().unwrap()).secrets.is_empty());
    let mirror =
        object(&POD.replace(r#""name":"p"}"#, r#""name":"p","annotations":{"kubernetes.io/config.mirror":"x"}}"#));
    let refs = pod_refs(mirror.view().unwrap());
    assert!(refs.mirror && refs.secrets.is_empty());
}

#[test]
fn a_volume_shows_kubelets_no_secret_of_the_controllers() {
    let volume = object(
        r#"{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv"},"spec":{"claimRef":{"namespace":"ns","name":"claim"},
        "csi":{"driver":"d","volumeHandle":"h","nodePublishSecretRef":{"name":"a","namespace":"v"},"nodeStageSecretRef":{"name":"b","namespace":"v"},
        "nodeExpandSecretRef":{"name":"c","namespace":"v"},"controllerPublishSecretRef":{"name":"x","namespace":"v"},"controllerExpandSecretRef":{"name":"y","namespace":"v"}}}}"#,
    );
    let (claim, secrets) = volume_refs(volume.view().unwrap());
    assert_eq!(claim, Some(("ns".to_owned(), "claim".to_owned())));
    assert_eq!(secrets.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let old = object(
        r#"{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv"},"spec":{"claimRef":{"namespace":"ns","name":"claim"},"cephfs":{"monitors":[],"secretRef":{"name":"s"}}}}"#,
    );
    assert_eq!(volume_refs(old.view().unwrap()).1, [("ns".to_owned(), "s".to_owned())]);
    let unbound = object(
        r#"{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv"},"spec":{"cephfs":{"monitors":[],"secretRef":{"name":"s"}}}}"#,
    );
    assert_eq!(volume_refs(unbound.view().unwrap()), (None, Vec::new()));
}

#[test]
fn what_is_observed_is_in_force_until_it_is_forgotten() {
    let objects = [
        object(POD),
        object(
            r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"],"resourceNames":["a"]},{"nonResourceURLs":["/x"],"verbs":["get"]}]}"#,
        ),
        object(
            r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b","namespace":"ns"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","name":"u","apiGroup":"rbac.authorization.k8s.io"},{"kind":"ServiceAccount","name":"sa"}]}"#,
        ),
        object(
            r#"{"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"va"},"spec":{"attacher":"a","nodeName":"n1","source":{}}}"#,
        ),
        object(
            r#"{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"rs"},"spec":{"driver":"d","nodeName":"n1","pool":{"name":"p","generation":1,"resourceSliceCount":1}}}"#,
        ),
        object(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"ns"}}"#),
    ];
    let authorizers = Authorizers::new();
    authorizers.observe(&objects);
    let (user, account) = (UserInfo::new("u", [""; 0]), UserInfo::service_account("ns", "sa", ""));
    let node = UserInfo::new("system:node:n1", [NODES]);
    let named = |user, group, resource, namespace, name| {
        authorizers
            .authorize(&Attributes { namespace, name, ..Attributes::resource(user, "get", group, resource) })
            .allowed()
    };
    let all = || {
        [
            named(&user, "", "pods", "ns", "a"),
            named(&account, "", "pods", "ns", "a"),
            named(&node, "", "secrets", "ns", "vol"),
            named(&node, "storage.k8s.io", "volumeattachments", "", "va"),
            named(&node, "resource.k8s.io", "resourceslices", "", "rs"),
        ]
    };
    assert_eq!(all(), [true; 5]);
    assert!(!named(&user, "", "pods", "ns", "b"));
    for object in &objects {
        let row = oarlock_schema::RESOURCES.iter().find(|row| std::ptr::eq(row.ty, object.ty())).unwrap();
        authorizers.forget(row, object.namespace(), object.name());
    }
    assert_eq!(all(), [false; 5]);
}

/// The objects of an empty cluster (`actors/registry/data/bootstrap.json`) give the policy of upstream's server.
#[test]
fn the_bootstrap_objects_are_a_working_policy() {
    let text = include_str!("../../../registry/data/bootstrap.json");
    let list: Vec<&serde_json::value::RawValue> = serde_json::from_str(text).unwrap();
    let objects: Vec<Obj> = list.iter().map(|raw| object(raw.get())).collect();
    let authorizers = Authorizers::new();
    authorizers.observe(&objects);
    let ask = |user: &UserInfo, verb, group, resource, namespace| {
        authorizers.authorize(&Attributes { namespace, ..Attributes::resource(user, verb, group, resource) }).allowed()
    };
    let scheduler = UserInfo::new("system:kube-scheduler", ["system:authenticated"]);
    assert!(ask(&scheduler, "list", "", "nodes", "") && !ask(&scheduler, "create", "", "pods", "ns"));
    let controller = UserInfo::service_account("kube-system", "replicaset-controller", "");
    assert!(ask(&controller, "create", "", "pods", "ns") && !ask(&controller, "create", "apps", "deployments", "ns"));
    let anonymous = UserInfo::anonymous();
    assert!(authorizers.authorize(&Attributes::path(&anonymous, "get", "/readyz")).allowed());
    assert!(!authorizers.authorize(&Attributes::path(&anonymous, "get", "/metrics")).allowed());
    // Only system:masters is bound to cluster-admin.
    let everything = [PolicyRule::resources(&["*"], &["*"], &["*"])];
    for binding in list.iter().filter(|raw| raw.get().contains("Binding")) {
        let binding: serde_json::Value = serde_json::from_str(binding.get()).unwrap();
        if binding["roleRef"]["name"] == "cluster-admin" {
            assert_eq!(binding["subjects"][0]["name"], MASTERS);
        }
    }
    for user in [&scheduler, &controller, &anonymous] {
        let (held, _) = authorizers.rbac().rules_for(user, "");
        assert!(!crate::authorizers::rbac::covers(&held, &everything).is_empty(), "{}", user.name);
    }
}

//! The pods, claims and revisions that the controller builds.

use oarlock_informer::{Item, Project, ResourceName};
use oarlock_meta::Revision;
use oarlock_schema::{Obj, Resource, Str, Value};
use oarlock_workloads::revision;
use serde_json::{Value as Json, json};

use super::super::objects;
use crate::project::{ControllerRevision, PodView, StatefulSet};

fn kind() -> &'static Resource {
    StatefulSet::RESOURCE.find().unwrap()
}

fn decoded(resource: &'static Resource, object: &Json) -> Obj {
    oarlock_client::decode(resource.ty, object.to_string().as_bytes()).unwrap()
}

fn shown(object: &Obj) -> Json {
    serde_json::from_slice(&oarlock_client::encode(object)).unwrap()
}

/// Makes a set with claims `data` and `log`, and an own volume of the name `log`.
fn whole(more: &Json) -> Obj {
    let template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
        "spec": {
            "containers": [{"name": "main", "image": "a:1"}],
            "volumes": [{"name": "log", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
        },
    });
    let claim = |name: &str| {
        json!({
            "metadata": {"name": name, "labels": {"app": "other", "of": name}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        })
    };
    let mut spec = json!({
        "serviceName": "inner",
        "selector": {"matchLabels": {"app": "web"}},
        "template": template,
        "volumeClaimTemplates": [claim("data"), claim("log")],
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let meta = json!({"name": "web", "namespace": "ns", "uid": "set", "annotations": {"who": "me"}});
    decoded(kind(), &json!({"metadata": meta, "spec": spec}))
}

fn item(whole: &Obj) -> Item<StatefulSet> {
    Item::of(whole, Revision(1))
}

#[test]
fn a_pod_has_its_name_its_labels_its_host_and_its_claims() {
    let whole = whole(&json!({}));
    let pods = PodView::RESOURCE.find().unwrap();
    let set = item(&whole);
    let pod = objects::pod(pods, (kind(), &set.meta), &whole, (7, "web-5d")).unwrap();
    let json = shown(&pod);
    let labels = json!({
        "app": "web",
        "apps.kubernetes.io/pod-index": "7",
        "controller-revision-hash": "web-5d",
        "statefulset.kubernetes.io/pod-name": "web-7",
    });
    let meta = &json["metadata"];
    assert_eq!((&meta["name"], &meta["namespace"], &meta["labels"]), (&json!("web-7"), &json!("ns"), &labels));
    assert_eq!(meta["annotations"], json!({"a": "b"}));
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set", "controller": true,
        "blockOwnerDeletion": true}]);
    assert_eq!(meta["ownerReferences"], owner);
    assert_eq!((&json["spec"]["hostname"], &json["spec"]["subdomain"]), (&json!("web-7"), &json!("inner")));
    let volumes = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-7"}},
        {"name": "log", "persistentVolumeClaim": {"claimName": "log-web-7"}},
        {"name": "tmp", "emptyDir": {}},
    ]);
    assert_eq!(json["spec"]["volumes"], volumes);
    let seen: Item<PodView> = Item::of(&pod, Revision(1));
    let claims: [(Str, Str); 2] = [("data".into(), "data-web-7".into()), ("log".into(), "log-web-7".into())];
    assert_eq!(*seen.value.claims, claims);
}

#[test]
fn a_claim_has_the_labels_of_its_template_and_of_the_selector_and_an_owner_if_the_set_wants_one() {
    let claim = |more: &Json| {
        let whole = whole(more);
        shown(&objects::claim((kind(), &item(&whole)), &whole, (1, 7)).unwrap())
    };
    let kept = claim(&json!({}));
    assert_eq!((&kept["kind"], &kept["apiVersion"]), (&json!("PersistentVolumeClaim"), &json!("v1")));
    assert_eq!((&kept["metadata"]["name"], &kept["metadata"]["namespace"]), (&json!("log-web-7"), &json!("ns")));
    assert_eq!(kept["metadata"]["labels"], json!({"app": "web", "of": "log"}));
    assert_eq!(kept["spec"]["resources"]["requests"]["storage"], "1Gi");
    assert!(kept["metadata"]["ownerReferences"].is_null());
    let policy = |deleted: &str| json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": "Delete"}});
    assert!(claim(&policy("Retain"))["metadata"]["ownerReferences"].is_null());
    assert_eq!(claim(&policy("Delete"))["metadata"]["ownerReferences"][0]["uid"], "set");
}

#[test]
fn owners_of_a_claim_are_replaced_and_others_stay() {
    let owner =
        |version: &str, kind: &str, name: &str| json!({"apiVersion": version, "kind": kind, "name": name, "uid": name});
    let owners = json!([
        owner("v1", "Pod", "web-0"),
        owner("v1", "Pod", "web-1"),
        owner("apps/v1", "StatefulSet", "web"),
        owner("apps/v1beta1", "StatefulSet", "web")
    ]);
    let claims = ResourceName::core("persistentvolumeclaims").find().unwrap();
    let meta = json!({"name": "data-web-0", "ownerReferences": owners});
    let mut claim = decoded(claims, &json!({"metadata": meta}));
    let new = decoded(claims, &json!({"metadata": {"ownerReferences": [owner("v1", "Pod", "new")]}}));
    let new = new.at(&["metadata", "ownerReferences"]).and_then(|all| all.items().first()).cloned();
    objects::own(&mut claim, "web", "web-0", new);
    let names: Vec<Json> = shown(&claim)["metadata"]["ownerReferences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(names, ["web-1", "web", "new"]);
    objects::own(&mut claim, "web", "new", None);
    assert_eq!(shown(&claim)["metadata"]["ownerReferences"].as_array().unwrap().len(), 2);
}

#[test]
fn a_revision_has_the_labels_of_the_template_the_annotations_of_the_set_and_the_data() {
    let whole = whole(&json!({}));
    let template = whole.at(&["spec", "template"]).and_then(Value::as_struct).unwrap();
    let set = item(&whole);
    let revisions = ControllerRevision::RESOURCE.find().unwrap();
    let data = revision::data(template);
    let made = objects::revision(revisions, (kind(), &set.meta), &whole, (4, "abc", data));
    let json = shown(&made);
    assert_eq!(json["metadata"]["labels"], json!({"app": "web", "controller.kubernetes.io/hash": "abc"}));
    assert_eq!(json["metadata"]["annotations"], json!({"who": "me"}));
    assert_eq!(json["metadata"]["ownerReferences"][0]["kind"], "StatefulSet");
    assert_eq!((&json["revision"], &json["data"]["spec"]["template"]["$patch"]), (&json!(4), &json!("replace")));
    let seen: Item<ControllerRevision> = Item::of(&made, Revision(1));
    assert_eq!((seen.value.number, seen.value.data), (4, set.value.data), "the set finds its own revision");
}

#[test]
fn a_set_is_read_with_the_defaults_of_absent_fields() {
    let read = |more: &Json| item(&whole(more)).value;
    let plain = read(&json!({}));
    assert_eq!((plain.replicas, plain.start, plain.history, plain.parallel), (1, 0, None, false));
    assert_eq!(plain.replacement, crate::project::Replacement::default());
    let full = read(&json!({
        "replicas": 3, "ordinals": {"start": 5}, "revisionHistoryLimit": 2, "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2, "maxUnavailable": "50%"}},
    }));
    assert_eq!((full.replicas, full.start, full.history, full.parallel), (3, 5, Some(2), true));
    let unavailable = crate::project::Amount::Percent(50);
    assert_eq!(full.replacement, crate::project::Replacement::Rolling { partition: Some(2), unavailable });
    assert_eq!(*full.claims, ["data", "log"]);
}

//! Requests that look harmless and would gain rights or read protected data are refused.

use std::time::Duration;

use oarlock_apiserver::Server;
use oarlock_client::{Call, Client, DeleteOptions, Fence, ListOptions, Object, PatchType, WriteOptions, fence};
use oarlock_meta::{FieldSelector, Revision, Status};
use oarlock_runtime::clock;
use oarlock_schema::{Obj, Resource, resource};
use oarlock_storage::MemoryLog;

use crate::lagging::{MAX_WAIT, acting_as, started};

const RBAC: &str = "rbac.authorization.k8s.io";

fn administrator(server: &Server) -> Client {
    acting_as(server, "admin", &["system:masters"])
}

fn row(group: &str, plural: &str) -> &'static Resource {
    resource(group, "v1", plural).unwrap()
}

fn obj(row: &'static Resource, json: &str) -> Obj {
    Object::from_json(row.ty, json.to_owned().into()).unwrap().obj().unwrap()
}

/// Grants `eve` the rules `rules` in all namespaces, and binds the named ClusterRoles to her.
async fn eve(server: &Server, rules: &str, holds: &[&str]) -> Client {
    let admin = administrator(server);
    let (roles, bindings) = (row(RBAC, "clusterroles"), row(RBAC, "clusterrolebindings"));
    admin.create(roles, obj(roles, &format!(r#"{{"metadata":{{"name":"eve"}},"rules":[{rules}]}}"#))).await.unwrap();
    for role in ["eve"].iter().chain(holds) {
        let binding = format!(
            r#"{{"metadata":{{"name":"eve-{role}"}},
                "roleRef":{{"apiGroup":"{RBAC}","kind":"ClusterRole","name":"{role}"}},
                "subjects":[{{"apiGroup":"{RBAC}","kind":"User","name":"eve"}}]}}"#
        );
        admin.create(bindings, obj(bindings, &binding)).await.unwrap();
    }
    acting_as(server, "eve", &[])
}

/// Waits until the answer is another than 403: the authorizer learns of a grant with a delay.
async fn granted<T>(ask: impl AsyncFn() -> Result<T, Status>) -> T {
    let deadline = clock::after(MAX_WAIT);
    loop {
        match ask().await {
            Err(status) if status.code == 403 && !deadline.passed() => clock::sleep(Duration::from_millis(5)).await,
            answer => return answer.unwrap(),
        }
    }
}

async fn patch(client: &Client, row: &'static Resource, name: &str, body: &'static str) -> Result<(), Status> {
    let body = (PatchType::Merge, body);
    client.patch(row, "", ("", name), body, WriteOptions::default()).await.map(drop)
}

#[tokio::test]
async fn labels_of_roles_and_bindings_are_given_by_who_holds_what_they_grant() {
    let (server, _hold) = started(&MemoryLog::new()).await;
    let rules = r#"{"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles","clusterrolebindings"],
        "verbs":["get","patch","update"]}"#;
    let eve = eve(&server, rules, &["system:aggregate-to-view"]).await;
    let (roles, bindings) = (row(RBAC, "clusterroles"), row(RBAC, "clusterrolebindings"));
    granted(async || eve.get(roles, "", "cluster-admin").await).await;
    let label = r#"{"metadata":{"labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}}}"#;
    for (row, name) in [(roles, "cluster-admin"), (bindings, "cluster-admin")] {
        let refused = patch(&eve, row, name, label).await.unwrap_err();
        assert_eq!(refused.code, 403, "{refused:?}");
        assert!(refused.message.contains("is attempting to grant RBAC permissions not currently held"), "{refused:?}");
        let mut whole = eve.get(row, "", name).await.unwrap().obj().unwrap();
        whole.set_at(&["metadata", "annotations", "a"], "b".to_owned());
        assert_eq!(eve.update(row, whole).await.unwrap_err().code, 403, "{name}");
        // A write of the kind the garbage collector makes grants nothing.
        patch(&eve, row, name, r#"{"metadata":{"finalizers":["example.org/eve"]}}"#).await.unwrap();
        patch(&eve, row, name, r#"{"metadata":{"finalizers":null}}"#).await.unwrap();
    }
    // A role whose rules the writer holds may be labelled.
    patch(&eve, roles, "system:aggregate-to-view", r#"{"metadata":{"labels":{"a":"b"}}}"#).await.unwrap();
}

#[tokio::test]
async fn an_aggregation_rule_is_taken_away_only_by_who_may_set_one() {
    let (server, _hold) = started(&MemoryLog::new()).await;
    let rules = r#"{"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"],"verbs":["get","patch"]}"#;
    let eve = eve(&server, rules, &["view"]).await;
    let roles = row(RBAC, "clusterroles");
    granted(async || eve.get(roles, "", "view").await).await;
    for body in [r#"{"aggregationRule":null}"#, r#"{"aggregationRule":null,"rules":[]}"#] {
        let refused = patch(&eve, roles, "view", body).await.unwrap_err();
        assert_eq!(refused.code, 403, "{refused:?}");
        let text = "must have cluster-admin privileges to use the aggregationRule";
        assert!(refused.message.ends_with(text), "{refused:?}");
    }
}

#[tokio::test]
async fn who_may_not_hold_claims_writes_under_none() {
    let (server, _hold) = started(&MemoryLog::new()).await;
    let admin = administrator(&server);
    let assignments = row("oarlock.dev", "assignments");
    let unit = obj(assignments, r#"{"metadata":{"name":"arbiter"},"spec":{"holderIdentity":"a"}}"#);
    let written = admin.create(assignments, unit).await.unwrap();
    let held = Fence { unit: "arbiter".into(), epoch: written.revision };
    let rules = r#"{"apiGroups":[""],"resources":["configmaps"],"verbs":["create","get"]}"#;
    let eve = eve(&server, rules, &[]).await;
    let maps = row("", "configmaps");
    let map = |name: &str| obj(maps, &format!(r#"{{"metadata":{{"name":"{name}","namespace":"default"}}}}"#));
    granted(async || eve.create(maps, map("without")).await).await;
    // The right epoch, a wrong epoch and an unknown unit get the same answer, so a client cannot tell them apart.
    let past = Fence { epoch: Revision(1), ..held.clone() };
    let nobodys = Fence { unit: "nobodys".into(), ..held.clone() };
    for claim in [held.clone(), past, nobodys] {
        let (unit, work) = (claim.unit.clone(), eve.create(maps, map("under-a-claim")));
        let refused = fence::scope(Some(claim), work).await.unwrap_err();
        assert_eq!(refused.code, 403, "{refused:?}");
        let text = format!(
            "assignments.oarlock.dev \"{unit}\" is forbidden: User \"eve\" cannot claim resource \"assignments\""
        );
        assert!(refused.message.starts_with(&text), "{refused:?}");
    }
    assert!(admin.get(maps, "default", "under-a-claim").await.unwrap_err().is_not_found());
    // The controllers may write under a fence whatever they may write without one.
    let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];
    let crew = acting_as(&server, "system:serviceaccount:kube-system:root-ca-cert-publisher", &groups);
    fence::scope(Some(held), crew.create(maps, map("of-the-crew"))).await.unwrap();
}

#[tokio::test]
async fn a_collection_is_deleted_by_who_may_delete_it_whatever_is_selected() {
    let (server, _hold) = started(&MemoryLog::new()).await;
    let admin = administrator(&server);
    let maps = row("", "configmaps");
    admin.create(maps, obj(maps, r#"{"metadata":{"name":"one","namespace":"default"}}"#)).await.unwrap();
    let rules = r#"{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["one"],
        "verbs":["get","list","deletecollection"]}"#;
    let eve = eve(&server, rules, &[]).await;
    granted(async || eve.get(maps, "default", "one").await).await;
    // The name in the request is ignored: the call acts on all objects its options select. A list restricted to the one name that eve may list shows no other
    // object.
    for (selector, lists) in
        [(FieldSelector::everything(), Err(403)), (FieldSelector::equal("metadata.name", "one"), Ok(()))]
    {
        let list = ListOptions { field_selector: selector, ..ListOptions::default() };
        let delete = Call::DeleteCollection(list.clone(), DeleteOptions::default());
        for (call, answer) in [(delete, Err(403)), (Call::List(list), lists)] {
            let said = eve.call(maps, "", "default", "one", call).await.map(drop);
            assert_eq!(said.map_err(|refused| refused.code), answer);
        }
    }
    admin.get(maps, "default", "one").await.unwrap();
}

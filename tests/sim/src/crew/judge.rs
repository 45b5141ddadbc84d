//! Judges the result of a seed.

use std::collections::BTreeMap;

use oarlock_check::check;
use oarlock_check::history::{Claim, Line};
use oarlock_client::{Client, ListOptions};
use oarlock_meta::Revision;
use oarlock_schema::Obj;
use parking_lot::Mutex;
use serde_json::Value;

use super::users::kind;
use super::{daemons, jobs};
use crate::replicas::history::Recorder;
use crate::replicas::truth::Truth;

/// Checks F1: members write for a unit under their claim, and the write lies between the claim's epoch and the unit's next.
pub(super) fn fenced(missing: &Mutex<Vec<String>>, told: Vec<Claim>, truth: &Truth, recorder: &Recorder) {
    truth.close(Vec::new());
    let missing = missing.lock();
    assert!(missing.is_empty(), "F1: written under no claim: {missing:#?}");
    assert!(!told.is_empty(), "void: nobody has written under a claim, or the API server does not say so");
    told.into_iter().for_each(|claim| recorder.write(Line::Claim(claim)));
    let history = recorder.read();
    let report = check(&history);
    assert!(report.violations.is_empty(), "{}", report.show(&history, 3));
}

/// The workloads that users want in the end.
pub(super) struct Wanted {
    /// The replicas of Deployments, by name.
    pub(super) deployments: BTreeMap<String, u64>,
    /// The completions of Jobs, by name.
    pub(super) jobs: BTreeMap<String, u64>,
    /// The DaemonSets.
    pub(super) daemons: daemons::Wanted,
}

/// Checks C1; returns the violations.
pub(super) async fn workloads(client: &Client, wanted: &Wanted) -> Vec<String> {
    let list = async |group, plural| -> Result<Vec<Value>, String> {
        let list = client.list(kind(group, plural), "default", ListOptions::default()).await;
        let list = list.map_err(|status| status.to_string())?;
        Ok(list.items.iter().map(|item| serde_json::from_slice(&item.bytes).unwrap()).collect())
    };
    let (sets, pods) = match (list("apps", "replicasets").await, list("", "pods").await) {
        (Ok(sets), Ok(pods)) => (sets, pods),
        (Err(error), _) | (_, Err(error)) => return vec![error],
    };
    let mut wrong = jobs::judge(client, &wanted.jobs, &pods).await;
    wrong.extend(daemons::judge(client, &wanted.daemons, &pods).await);
    let owner =
        |object: &Value| object["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default().to_owned();
    for (name, replicas) in &wanted.deployments {
        let of_it: Vec<_> = sets.iter().filter(|set| set["metadata"]["labels"]["app"] == name.as_str()).collect();
        let [set] = of_it.as_slice() else {
            wrong.push(format!("{name} has {} ReplicaSets", of_it.len()));
            continue;
        };
        let mine: Vec<_> = pods.iter().filter(|pod| owner(pod) == set["metadata"]["uid"].as_str().unwrap()).collect();
        let unbound = mine.iter().filter(|pod| pod["spec"]["nodeName"].is_null()).count();
        if mine.len() as u64 != *replicas || unbound > 0 {
            wrong.push(format!("{name} wants {replicas}, has {} of which {unbound} unbound", mine.len()));
        }
    }
    let pods = pods.iter().filter(|pod| pod["metadata"]["labels"]["job-name"].is_null() && !daemons::is_daemon(pod));
    let known = |pod: &&Value| sets.iter().any(|set| set["metadata"]["uid"].as_str() == Some(&owner(pod)));
    wrong.extend(pods.filter(|pod| !known(pod)).map(|pod| format!("{} is an orphan", pod["metadata"]["name"])));
    let stray = sets
        .iter()
        .filter(|set| !wanted.deployments.contains_key(set["metadata"]["labels"]["app"].as_str().unwrap_or("")));
    wrong.extend(stray.map(|set| format!("{} is left over", set["metadata"]["name"])));
    wrong
}

/// Checks S2: pods by uid, each with the first node on which the pod was seen.
#[derive(Debug, Default)]
pub(super) struct Nodes(BTreeMap<String, String>);

impl Nodes {
    /// Checks a written version of a pod.
    pub(super) fn see(&mut self, pod: &Obj, revision: Revision) {
        let node = pod.at(&["spec", "nodeName"]).and_then(|node| node.as_str()).unwrap_or_default().to_owned();
        if node.is_empty() {
            return;
        }
        let first = self.0.entry(pod.meta().uid().to_owned()).or_insert_with(|| node.clone());
        assert_eq!(*first, node, "S2: at {revision} {} is bound again", pod.meta().name());
    }
}

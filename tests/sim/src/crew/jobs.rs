//! Users' Jobs: created and deleted, with pods that end, and each end counted once.

use std::collections::{BTreeMap, BTreeSet};

use oarlock_client::{Client, DeleteOptions, ListOptions, PatchType, Propagation, WriteOptions};
use oarlock_runtime::{Rng, clock};
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1;
use serde_json::{Value, json};

use super::users::{NAMESPACE, THINK_TIME, kind, object, surely};

const COMPLETIONS: u64 = 4;

/// A user who makes Jobs and deletes some of them. Returns the completions of the Jobs that are left, by name.
pub(super) async fn user(client: Client, mut rng: Rng, calls: u64) -> BTreeMap<String, u64> {
    let jobs = kind("batch", "jobs");
    let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
    for number in 0..calls {
        clock::sleep(rng.jitter(THINK_TIME * 4, 90)).await;
        if rng.chance(1, 3)
            && let Some(name) = wanted.keys().next().cloned()
        {
            let propagation = [Propagation::Background, Propagation::Foreground][rng.below(2) as usize];
            let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
            surely(async || match client.delete(jobs, NAMESPACE, &name, options.clone()).await {
                Err(status) if status.is_not_found() => Ok(()),
                other => other.map(drop),
            })
            .await;
            wanted.remove(&name);
            continue;
        }
        let name = format!("job-{number}");
        let (completions, parallelism) = (rng.below(COMPLETIONS) + 1, rng.below(COMPLETIONS) + 1);
        let mode = ["NonIndexed", "Indexed"][rng.below(2) as usize];
        let containers = json!([{"name": "c", "image": "registry.k8s.io/pause:3.10"}]);
        let template = json!({"spec": {"restartPolicy": "Never", "containers": containers}});
        let spec = json!({
            "completions": completions, "parallelism": parallelism, "completionMode": mode, "template": template,
        });
        let json = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
        surely(async || match client.create(jobs, object(jobs, json.clone())).await {
            Err(status) if status.is_already_exists() => Ok(()),
            other => other.map(drop),
        })
        .await;
        wanted.insert(name, completions);
    }
    wanted
}

/// Ends the bound pods of Jobs, as a kubelet would: all succeed, except the first pod of every other Job.
#[derive(Default)]
pub(super) struct Ends {
    failed: BTreeSet<String>,
}

impl Ends {
    pub(super) async fn end(&mut self, client: &Client, pod: &Obj) {
        let view: core_v1::Pod<'_> = pod.view().unwrap();
        let Some(job) = view.metadata().labels().get("job-name") else { return };
        if matches!(view.status().phase(), "Succeeded" | "Failed") || view.spec().node_name().is_empty() {
            return;
        }
        let fails = job.ends_with(['1', '3', '5', '7', '9']) && self.failed.insert(job.to_owned());
        let phase = if fails { "Failed" } else { "Succeeded" };
        let patch = (PatchType::Merge, json!({"status": {"phase": phase}}).to_string());
        // The pod may be deleted meanwhile.
        let _done =
            client.patch(kind("", "pods"), "status", (NAMESPACE, pod.name()), patch, WriteOptions::default()).await;
    }
}

/// Returns the violations of Jobs: each must be complete, its counts must equal the ends of its pods, and no pod may be kept.
pub(super) async fn judge(client: &Client, wanted: &BTreeMap<String, u64>, pods: &[Value]) -> Vec<String> {
    let list = match client.list(kind("batch", "jobs"), NAMESPACE, ListOptions::default()).await {
        Ok(list) => list,
        Err(status) => return vec![status.to_string()],
    };
    let jobs: Vec<Value> = list.items.iter().map(|item| serde_json::from_slice(&item.bytes).unwrap()).collect();
    let mut wrong = Vec::new();
    for (name, completions) in wanted {
        let Some(job) = jobs.iter().find(|job| job["metadata"]["name"] == name.as_str()) else {
            wrong.push(format!("Job {name} is missing"));
            continue;
        };
        let (status, uid) = (&job["status"], &job["metadata"]["uid"]);
        let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        let done = conditions.iter().any(|one| one["type"] == "Complete" && one["status"] == "True");
        let mine: Vec<_> = pods.iter().filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == *uid).collect();
        let ended = |phase: &str| mine.iter().filter(|pod| pod["status"]["phase"] == phase).count() as u64;
        let counts = ["succeeded", "failed"].map(|field| status[field].as_u64().unwrap_or(0));
        let seen = [ended("Succeeded"), ended("Failed")];
        if !done || counts != seen || counts[0] != *completions || mine.len() as u64 != seen[0] + seen[1] {
            wrong.push(format!("Job {name} wants {completions}, {} pods ended as {seen:?}: {status}", mine.len()));
        }
        let kept =
            mine.iter().filter(|pod| pod["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty()));
        wrong.extend(kept.map(|pod| format!("{} is kept", pod["metadata"]["name"])));
    }
    let stray = jobs.iter().filter(|job| !wanted.contains_key(job["metadata"]["name"].as_str().unwrap()));
    let known =
        |pod: &&Value| jobs.iter().any(|job| job["metadata"]["uid"] == pod["metadata"]["ownerReferences"][0]["uid"]);
    let of_jobs = pods.iter().filter(|pod| !pod["metadata"]["labels"]["job-name"].is_null());
    wrong.extend(of_jobs.filter(|pod| !known(pod)).map(|pod| format!("{} has lost its Job", pod["metadata"]["name"])));
    wrong.extend(stray.map(|job| format!("Job {} is left over", job["metadata"]["name"])));
    wrong
}

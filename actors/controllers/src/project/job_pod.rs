//! The projection of a Job's pod: the fields that only the job controller reads.

use oarlock_meta::Time;
use oarlock_pods::conditions;
use oarlock_pods::sidecar::has_sidecar;
use oarlock_schema::Str;
use oarlock_schema::views::core_v1::{self, ContainerStatus};
use oarlock_schema::views::{List, Map};

use super::job::TRACKING;
use super::time;

/// The annotation and label of a pod's index (upstream `JobCompletionIndexAnnotation`).
pub(crate) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation with the number of earlier counted failures of the index.
pub(crate) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation with the number of earlier failures of the index that the policy ignored.
pub(crate) const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The fields of a Job's pod that only the job controller reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobPod {
    /// The pod's index; `None` without a valid one.
    pub(crate) index: Option<i64>,
    /// The earlier counted failures of the index.
    pub(crate) failures: i64,
    /// The earlier failures of the index that the policy ignored.
    pub(crate) ignored: i64,
    /// The restarts of all containers together.
    pub(crate) restarts: i64,
    /// The best known end of the pod (upstream `getFinishedTime`).
    pub(crate) finished: Option<Time>,
    /// The containers with an exit code other than 0, init containers last.
    pub(crate) exits: Box<[(Str, i64)]>,
    /// The types and statuses of the pod's conditions.
    pub(crate) conditions: Box<[(Str, Str)]>,
}

impl JobPod {
    /// Reads the fields; `None` for a pod that belongs to no Job.
    pub(crate) fn read(pod: core_v1::Pod<'_>) -> Option<Box<Self>> {
        let meta = pod.metadata();
        let owned =
            meta.owner_references().iter().any(|owner| owner.controller() == Some(true) && owner.kind() == "Job");
        if !owned && !meta.finalizers().iter().any(|finalizer| finalizer == TRACKING) {
            return None;
        }
        let (status, annotations) = (pod.status(), meta.annotations());
        let (init, main) = (status.init_container_statuses(), status.container_statuses());
        let restarts = |list: List<'_, ContainerStatus<'_>>| list.iter().map(|one| one.restart_count()).sum::<i64>();
        Some(Box::new(Self {
            index: annotations.get(INDEX).and_then(|index| index.parse::<i64>().ok()).filter(|index| *index >= 0),
            failures: count(annotations, FAILURES),
            ignored: count(annotations, IGNORED),
            restarts: restarts(init).saturating_add(restarts(main)),
            finished: finished(pod),
            exits: main.iter().chain(init.iter()).filter_map(exit).collect(),
            conditions: status.conditions().iter().map(|one| (one.type_().into(), one.status().into())).collect(),
        }))
    }
}

/// Reads a count from an annotation; 0 if absent or invalid.
fn count(annotations: Map<'_, &str>, key: &str) -> i64 {
    let number = annotations.get(key).and_then(|text| text.parse::<i32>().ok());
    number.filter(|number| *number >= 0).map_or(0, i64::from)
}

fn exit(status: ContainerStatus<'_>) -> Option<(Str, i64)> {
    let code = status.state().terminated()?.exit_code();
    (code != 0).then(|| (status.name().into(), code))
}

/// Returns the end of the pod's last container; if unknown, when the pod stopped being ready, else the time of its deletion, else of its creation.
fn finished(pod: core_v1::Pod<'_>) -> Option<Time> {
    let (meta, status) = (pod.metadata(), pod.status());
    let unready = || {
        let ready = conditions::ready(status)?;
        time(ready.last_transition_time()).filter(|_| ready.status() == "False")
    };
    let asked = || {
        let deletion = time(meta.deletion_timestamp()?)?;
        let grace = meta.deletion_grace_period_seconds().unwrap_or(0);
        Some(Time::from_unix(deletion.unix().saturating_sub(grace)))
    };
    last_exit(pod).or_else(unready).or_else(asked).or_else(|| time(meta.creation_timestamp()))
}

/// Returns the end of the last container or sidecar; `None` unless all have ended.
fn last_exit(pod: core_v1::Pod<'_>) -> Option<Time> {
    let (spec, status) = (pod.spec(), pod.status());
    let sidecars = status.init_container_statuses().iter().filter(|one| has_sidecar(spec, one.name()));
    let mut last = None;
    for one in status.container_statuses().iter().chain(sidecars) {
        last = last.max(Some(time(one.state().terminated()?.finished_at())?));
    }
    last
}

#[cfg(test)]
mod tests {
    use oarlock_informer::Project;
    use serde_json::{Value, json};

    use super::*;
    use crate::project::PodView;

    fn read(mut pod: Value) -> Option<Box<JobPod>> {
        pod["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        let ty = PodView::RESOURCE.find().unwrap().ty;
        let object = oarlock_client::decode(ty, pod.to_string().as_bytes()).unwrap();
        PodView::project(&object).job
    }

    fn at(second: i64) -> Option<Time> {
        Some(Time::from_unix(Time::parse("2026-01-01T00:00:00Z").unwrap().unix() + second))
    }

    fn ended(second: i64, code: i64) -> Value {
        json!({"terminated": {"exitCode": code, "finishedAt": at(second).unwrap().to_string()}})
    }

    fn tracked() -> Value {
        json!({"finalizers": [TRACKING]})
    }

    #[test]
    fn only_pods_of_jobs_are_read_further() {
        assert!(read(json!({"metadata": {}})).is_none());
        let owner =
            |kind: &str| json!([{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]);
        assert!(read(json!({"metadata": {"ownerReferences": owner("ReplicaSet")}})).is_none());
        assert!(read(json!({"metadata": {"ownerReferences": owner("Job")}})).is_some());
        assert!(read(json!({"metadata": tracked()})).is_some());
    }

    #[test]
    fn counts_that_make_no_sense_count_as_none() {
        let with = |index: &str, failures: &str| {
            let mut metadata = tracked();
            metadata["annotations"] = json!({INDEX: index, FAILURES: failures});
            let pod = read(json!({"metadata": metadata})).unwrap();
            (pod.index, pod.failures)
        };
        assert_eq!(with("3", "2"), (Some(3), 2));
        assert_eq!(with("-3", "-2"), (None, 0));
        assert_eq!(with("x", "9999999999"), (None, 0));
    }

    #[test]
    fn the_last_container_says_when_a_pod_ended() {
        let main = json!([{"name": "a", "restartCount": 2, "state": ended(5, 0)}, {"name": "b", "state": ended(7, 3)}]);
        let init = json!([{"name": "first", "restartCount": 1, "state": ended(99, 4)}]);
        let pod = json!({"metadata": tracked(), "status": {"containerStatuses": main, "initContainerStatuses": init}});
        let read_one = read(pod.clone()).unwrap();
        assert_eq!((read_one.finished, read_one.restarts), (at(7), 3));
        assert_eq!(*read_one.exits, [("b".into(), 3), ("first".into(), 4)]);
        let mut sidecar = pod;
        sidecar["spec"]["initContainers"] = json!([{"name": "first", "restartPolicy": "Always"}]);
        assert_eq!(read(sidecar).unwrap().finished, at(99));
    }

    #[test]
    fn where_containers_do_not_say_other_signs_do() {
        let conditions =
            json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(20).unwrap().to_string()}]);
        let running = json!([{"name": "a", "state": {"running": {}}}]);
        let mut pod =
            json!({"metadata": tracked(), "status": {"conditions": conditions, "containerStatuses": running}});
        pod["metadata"]["deletionTimestamp"] = json!(at(50).unwrap().to_string());
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        assert_eq!(read(pod.clone()).unwrap().finished, at(20));
        pod["status"]["conditions"] = json!([]);
        pod["metadata"]["deletionTimestamp"] = json!(at(55).unwrap().to_string());
        assert_eq!(read(pod).unwrap().finished, at(25), "when it was asked to go");
        assert_eq!(read(json!({"metadata": tracked()})).unwrap().finished, at(0), "when it was made");
    }
}

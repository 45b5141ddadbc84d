//! Builds the pods of a Job from its template.

use oarlock_informer::Item;
use oarlock_meta::Status;
use oarlock_schema::views::{View, batch_v1, core_v1};
use oarlock_schema::{Obj, Resource, Struct, Value};

use super::plan::New;
use crate::project::{FAILURES, IGNORED, INDEX, Job, TRACKING};
use crate::write::node;

/// The environment variable with a container's index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest generated name in bytes, without the random suffix.
const MAX_GENERATE_NAME: usize = 58;

/// Returns a pod of a Job's template, controlled by the Job, with the finalizer that keeps the pod until it is counted.
///
/// # Errors
/// 500 when `whole` is no Job.
pub(super) fn pod(
    (job_resource, pod_resource): (&Resource, &'static Resource),
    job: &Item<Job>,
    whole: &Obj,
    new: New,
) -> Result<Obj, Status> {
    let view: batch_v1::Job<'_> = whole.view().ok_or_else(|| Status::internal_error("the answer is no Job"))?;
    let template = view.spec().template();
    let mut pod = crate::pod_template::pod(pod_resource, template, (job_resource, &job.meta));
    let finalizers = template.metadata().finalizers();
    if !finalizers.iter().any(|finalizer| finalizer == TRACKING) {
        let finalizers = finalizers.values().iter().cloned().chain([Value::from(TRACKING)]);
        pod.set_at(&["metadata", "finalizers"], Value::from_iter(finalizers));
    }
    pod.set_at(&["metadata", "generateName"], generate_name(job.meta.name(), new.index));
    if let Some(index) = new.index {
        number(&mut pod, job.meta.name(), index);
    }
    if let Some((failures, ignored)) = new.failures {
        pod.set_at(&["metadata", "annotations", FAILURES], failures.to_string());
        if ignored > 0 {
            pod.set_at(&["metadata", "annotations", IGNORED], ignored.to_string());
        }
    }
    Ok(pod)
}

/// Returns the `generateName` of a pod; the Job's name is cut so that the index is kept.
fn generate_name(job: &str, index: Option<i64>) -> String {
    let end = index.map_or_else(|| "-".to_owned(), |index| format!("-{index}-"));
    // Names are ASCII; the server cuts names without an index.
    let room = if index.is_some() { MAX_GENERATE_NAME.saturating_sub(end.len()) } else { job.len() };
    format!("{}{end}", job.get(..room).unwrap_or(job))
}

/// Sets a pod's index in annotation, label, host name and the containers' environment.
fn number(pod: &mut Obj, job: &str, index: i64) {
    pod.set_at(&["metadata", "annotations", INDEX], index.to_string());
    pod.set_at(&["metadata", "labels", INDEX], index.to_string());
    pod.set_at(&["spec", "hostname"], format!("{job}-{index}"));
    for list in ["initContainers", "containers"] {
        let Some(containers) = pod.at(&["spec", list]) else { continue };
        let changed: Vec<Value> = containers.items().iter().map(with_index_variable).collect();
        if !changed.is_empty() {
            pod.set_at(&["spec", list], Value::from_iter(changed));
        }
    }
}

fn with_index_variable(container: &Value) -> Value {
    let mut container = container.clone();
    let Some(node) = container.as_struct_mut() else { return container };
    let known = core_v1::Container::new(node).env().iter().any(|variable| variable.name() == INDEX_VARIABLE);
    if !known {
        let before: Vec<Value> = core_v1::Container::new(node).env().values().to_vec();
        node.set_name("env", Value::from_iter(before.into_iter().chain([variable()])));
    }
    container
}

fn variable() -> Value {
    let path = format!("metadata.labels['{INDEX}']");
    let field: Struct = node(core_v1::ObjectFieldSelector::TYPE, [("fieldPath", Value::from(path))]);
    let source = node(core_v1::EnvVarSource::TYPE, [("fieldRef", Value::Struct(field))]);
    Value::Struct(node(core_v1::EnvVar::TYPE, [("name", INDEX_VARIABLE.into()), ("valueFrom", Value::Struct(source))]))
}

#[cfg(test)]
mod tests {
    use oarlock_informer::Project;
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::project::PodView;

    fn made(new: New) -> Json {
        let (jobs, pods) = (Job::RESOURCE.find().unwrap(), PodView::RESOURCE.find().unwrap());
        let env = json!([{"name": INDEX_VARIABLE, "value": "mine"}]);
        let template = json!({
            "metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/theirs"]},
            "spec": {"initContainers": [{"name": "first"}], "containers": [{"name": "a"}, {"name": "b", "env": env}]},
        });
        let whole =
            json!({"metadata": {"name": "work", "namespace": "ns", "uid": "u"}, "spec": {"template": template}});
        let whole = oarlock_client::decode(jobs.ty, whole.to_string().as_bytes()).unwrap();
        let job = Item::of(&whole, oarlock_meta::Revision::ZERO);
        let pod = super::pod((jobs, pods), &job, &whole, new).unwrap();
        serde_json::from_slice(&oarlock_client::encode(&pod)).unwrap()
    }

    #[test]
    fn a_pod_is_its_jobs_and_is_kept_until_it_is_counted() {
        let pod = made(New::default());
        let meta = &pod["metadata"];
        assert_eq!(meta["generateName"], "work-");
        assert_eq!(meta["finalizers"], json!(["example.com/theirs", TRACKING]));
        let owner = &meta["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["uid"], &owner["controller"]), (&json!("Job"), &json!("u"), &json!(true)));
        assert!(pod["spec"]["hostname"].is_null() && pod["spec"]["containers"][0]["env"].is_null(), "{pod}");
    }

    #[test]
    fn a_pod_and_its_containers_know_their_index() {
        let pod = made(New { index: Some(7), failures: Some((2, 1)) });
        let meta = &pod["metadata"];
        assert_eq!((&meta["generateName"], &pod["spec"]["hostname"]), (&json!("work-7-"), &json!("work-7")));
        assert_eq!((&meta["labels"][INDEX], &meta["labels"]["a"]), (&json!("7"), &json!("b")));
        assert_eq!(meta["annotations"], json!({INDEX: "7", FAILURES: "2", IGNORED: "1"}));
        let path = format!("metadata.labels['{INDEX}']");
        let changed = json!([{"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}]);
        assert_eq!(
            (&pod["spec"]["initContainers"][0]["env"], &pod["spec"]["containers"][0]["env"]),
            (&changed, &changed)
        );
        assert_eq!(pod["spec"]["containers"][1]["env"][0]["value"], "mine", "who says so itself is left alone");
    }

    #[test]
    fn the_index_stays_in_the_name() {
        let long = "j".repeat(63);
        let name = generate_name(&long, Some(12));
        assert!(name.len() == MAX_GENERATE_NAME && name.ends_with("j-12-"), "{name}");
        assert_eq!(generate_name("work", Some(0)), "work-0-");
    }
}

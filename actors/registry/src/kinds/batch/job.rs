//! Jobs: by default a Job selects its pods by labels with the Job's own uid.

use oarlock_client::Propagation;
use oarlock_meta::names;
use oarlock_schema::{Obj, Value};

use crate::fields;
use crate::kind::{Request, Strategy};

/// Strategy of jobs.
#[derive(Debug)]
pub struct JobStrategy;

/// The labels of a Job's pods, new names and old (upstream `generateSelector`).
const UID: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

impl Strategy for JobStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        fields::reset_for_create(request.resource, obj);
        if obj.at(&["spec", "manualSelector"]).and_then(Value::as_bool) != Some(true) {
            generate_selector(obj);
        }
    }

    fn default_propagation(&self) -> Option<Propagation> {
        Some(Propagation::Orphan)
    }

    fn default_propagation_warning(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them \
             or set propagationPolicy=Orphan to suppress this warning",
        )
    }
}

/// Adds the selector and the template's labels. Labels that the template already has are kept; validation then refuses a selector that does not
/// match.
fn generate_selector(obj: &mut Obj) {
    let (uid, name) = (obj.meta().uid().to_owned(), obj.name().to_owned());
    let path = ["spec", "template", "metadata", "labels"];
    let mut labels = obj.at(&path).and_then(Value::as_map).cloned().unwrap_or_default();
    for (keys, value) in [(UID, &uid), (NAME, &name)] {
        for key in keys {
            if labels.get(key).is_none() {
                labels.insert(key, value.as_str());
            }
        }
    }
    // A Job without labels gets those of its pods; upstream fills them in on every read, so that a name that is no label is an error of the template only.
    if obj.meta().labels().is_empty() && names::label_value_errors(&name).is_empty() {
        obj.set_at(&["metadata", "labels"], labels.clone());
    }
    obj.set_at(&path, labels);
    let path = ["spec", "selector", "matchLabels"];
    let mut selector = obj.at(&path).and_then(Value::as_map).cloned().unwrap_or_default();
    if let [new, _] = UID
        && selector.get(new).is_none()
    {
        selector.insert(new, uid);
    }
    obj.set_at(&path, selector);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_selects_its_pods_by_its_uid() {
        let resource = oarlock_schema::resource("batch", "v1", "jobs").unwrap();
        let mut job = Obj::new(resource.ty);
        job.meta_mut().unwrap().set_name("j").set_uid("u");
        JobStrategy.prepare_create(&crate::kind::tests::request(resource), &mut job);
        let text = |path: &[&str]| job.at(path).and_then(Value::as_str).map(str::to_owned);
        assert_eq!(
            text(&["spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"]).as_deref(),
            Some("u")
        );
        for (key, want) in [("controller-uid", "u"), ("job-name", "j"), ("batch.kubernetes.io/job-name", "j")] {
            assert_eq!(text(&["spec", "template", "metadata", "labels", key]).as_deref(), Some(want));
            assert_eq!(text(&["metadata", "labels", key]).as_deref(), Some(want));
        }
    }

    #[test]
    fn a_name_that_is_no_label_does_not_label_the_job_itself() {
        let resource = oarlock_schema::resource("batch", "v1", "jobs").unwrap();
        let mut job = Obj::new(resource.ty);
        job.meta_mut().unwrap().set_name("j".repeat(64)).set_uid("u");
        JobStrategy.prepare_create(&crate::kind::tests::request(resource), &mut job);
        assert!(job.meta().labels().is_empty() && job.at(&["spec", "template", "metadata", "labels"]).is_some());
    }

    #[test]
    fn a_job_keeps_labels_of_its_own() {
        let resource = oarlock_schema::resource("batch", "v1", "jobs").unwrap();
        let mut job = Obj::new(resource.ty);
        job.set_at(&["metadata", "labels", "a"], "b");
        JobStrategy.prepare_create(&crate::kind::tests::request(resource), &mut job);
        assert_eq!(job.meta().labels().iter().collect::<Vec<_>>(), [("a", "b")]);
    }

    #[test]
    fn a_manual_selector_is_left_alone() {
        let resource = oarlock_schema::resource("batch", "v1", "jobs").unwrap();
        let mut job = Obj::new(resource.ty);
        job.set_at(&["spec", "manualSelector"], true);
        JobStrategy.prepare_create(&crate::kind::tests::request(resource), &mut job);
        assert!(job.at(&["spec", "selector"]).is_none());
    }
}

//! Defaults and validation of Job.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::batch_v1::{Job, JobMut, JobSpec};
use oarlock_schema::{FromValue as _, Struct, Value};

use super::policies;
use crate::apps::workload::matching;
use crate::rules::{formats, immutable, selector, show};

/// The most indexes that may run, or fail, at once (upstream `completionsSoftLimit`).
const COMPLETIONS_SOFT_LIMIT: i64 = 100_000;
/// The most indexes that may run, or fail, at once when there are more than [`COMPLETIONS_SOFT_LIMIT`] (upstream `parallelismLimitForHighCompletions`).
const HIGH_COMPLETIONS_LIMIT: i64 = 10_000;
const NOT_INDEXED: &str = "requires indexed completion mode";

/// Sets defaults like upstream's `SetDefaults_Job`. Job templates of CronJobs get the defaults only when a Job is created from them.
pub fn default(node: &mut Struct) {
    let labels = node
        .at(&["spec", "template", "metadata", "labels"])
        .filter(|v| v.as_map().is_some_and(|m| !m.is_empty()))
        .cloned();
    let mut job = JobMut::new(node);
    if let Some(labels) = labels
        && job.read().metadata().labels().is_empty()
    {
        job.metadata_mut().set_labels(labels);
    }
    let mut spec = job.spec_mut();
    if spec.read().parallelism().is_none() {
        if spec.read().completions().is_none() {
            spec.set_completions(1);
        }
        spec.set_parallelism(1);
    }
    if spec.read().backoff_limit().is_none() {
        // Limits per index replace the limit for all indexes.
        let limit = if spec.read().backoff_limit_per_index().is_some() { i32::MAX } else { 6 };
        spec.set_backoff_limit(limit);
    }
    let replacement = if spec.read().pod_failure_policy().is_some() { "Failed" } else { "TerminatingOrFailed" };
    let defaults: [(&str, Value); 4] = [
        ("completionMode", "NonIndexed".into()),
        ("suspend", false.into()),
        ("podReplacementPolicy", replacement.into()),
        ("manualSelector", false.into()),
    ];
    let node = spec.node();
    for (field, value) in defaults {
        if node.get(field).is_none_or(Value::is_null) {
            node.set_name(field, value);
        }
    }
}

/// Validates a Job's selector. The server generates labels and selector so that a Job selects its own pods, unless `manualSelector` is set.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = Job::new(node).spec();
    let at = path.child("spec");
    if spec.manual_selector() != Some(true) {
        generated(Job::new(node), &at, errors);
    }
    if spec.selector().is_none() {
        errors.push(FieldError::required(&at.child("selector"), ""));
    }
    matching(spec.selector(), spec.template(), &at, errors);
    // The host name of the last pod must be valid.
    let last = spec.completions().filter(|completions| *completions > 0 && spec.completion_mode() == Some("Indexed"));
    if let Some(last) = last {
        let name = Job::new(node).metadata().name();
        let host = format!("{name}-{}", last - 1);
        if !formats::dns1123_label(&host).is_empty() {
            let text = format!("will not able to create pod with invalid DNS label: {host}");
            let at = path.child("metadata");
            errors.push(FieldError::invalid(&at.child("name"), name, text));
        }
    }
}

/// Validates that a generated selector matches the pods of this Job and no others (upstream `validateGeneratedSelector`).
fn generated(job: Job<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (spec, uid, name) = (job.spec(), job.metadata().uid(), job.metadata().name());
    let Some(selector) = spec.selector() else { return };
    let template = spec.template();
    let labels = template.metadata().labels();
    let at = path.child("template");
    let at = at.child("metadata");
    let at = at.child("labels");
    let mut expected = oarlock_schema::Map::default();
    for (key, want) in [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ] {
        expected.insert(key, want);
        let text = format!("must be '{want}'");
        match labels.get(key) {
            None => errors.push(FieldError::required(&at.key(key), text)),
            Some(have) if have != want => {
                let shown = show::value(template.metadata().node().and_then(|m| m.get("labels")));
                errors.push(FieldError::invalid(&at.key(key), shown, text));
            }
            Some(_) => {}
        }
    }
    if !selector::matches(selector, oarlock_schema::views::Map::from_value(&Value::Map(expected))) {
        let shown = Raw(selector.node().map(show::node).unwrap_or_default());
        errors.push(FieldError::invalid(&path.child("selector"), shown, "`selector` not auto-generated"));
    }
}

/// Validates like upstream's `validateJobSpec`; the table's row checks the numbers.
pub fn validate_spec(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = JobSpec::new(node);
    if spec.max_failed_indexes().is_some() && spec.backoff_limit_per_index().is_none() {
        errors.push(FieldError::required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    if let Some(name) = spec.managed_by() {
        let at = path.child("managedBy");
        let (domain, rest) = name.split_once('/').unwrap_or(("", name));
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if domain.is_empty() || rest.is_empty() {
            errors.push(FieldError::invalid(&at, name, "must be a domain-prefixed path (such as \"acme.io/foo\")"));
        } else {
            crate::rules::subdomain(domain, &at, errors);
        }
        if name.len() > 63 {
            errors.push(FieldError::too_long(&at, 63));
        }
    }
    indexing(spec, path, errors);
    policies::failure(spec, &path.child("podFailurePolicy"), errors);
    if let Some(policy) = spec.success_policy().filter(|_| spec.completion_mode() != Some("Indexed")) {
        let shown = Raw(policy.node().map(show::internal).unwrap_or_default());
        errors.push(FieldError::invalid(&path.child("successPolicy"), shown, NOT_INDEXED));
    } else {
        policies::success(spec, &path.child("successPolicy"), errors);
    }
    if let Some(policy) = spec.pod_replacement_policy() {
        // With a pod failure policy, pods are replaced only after they have failed.
        let allowed: &[&str] =
            if spec.pod_failure_policy().is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        crate::rules::one_of(policy, allowed, &path.child("podReplacementPolicy"), errors);
    }
}

/// Validates the fields that upstream checks after the template: pods of a Job must end.
pub fn after(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = JobSpec::new(node);
    let at = path.child("template");
    let at = at.child("spec");
    let at = at.child("restartPolicy");
    match spec.template().spec().restart_policy() {
        "" | "Always" => errors.push(FieldError::required(&at, "valid values: \"OnFailure\", \"Never\"")),
        "Never" => {}
        "OnFailure" if spec.pod_failure_policy().is_some() => {
            let text = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid(&at, "OnFailure", text));
        }
        "OnFailure" => {}
        other => errors.push(FieldError::not_supported(&at, other, &["OnFailure", "Never"])),
    }
}

fn indexing(spec: JobSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    match spec.completion_mode() {
        None | Some("NonIndexed") => {
            let limits = [
                ("backoffLimitPerIndex", spec.backoff_limit_per_index()),
                ("maxFailedIndexes", spec.max_failed_indexes()),
            ];
            for (field, limit) in limits {
                if let Some(limit) = limit {
                    errors.push(FieldError::invalid(&path.child(field), limit, NOT_INDEXED));
                }
            }
        }
        Some("Indexed") => indexed(spec, path, errors),
        Some(other) => {
            errors.push(FieldError::not_supported(&path.child("completionMode"), other, &["NonIndexed", "Indexed"]));
        }
    }
}

/// Validates the limits of indexed Jobs, which keep the texts of indexes in the status short.
fn indexed(spec: JobSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let completions = spec.completions();
    if completions.is_none() {
        errors.push(FieldError::required(&path.child("completions"), "when completion mode is Indexed"));
    }
    at_most(
        COMPLETIONS_SOFT_LIMIT,
        " when completion mode is Indexed",
        spec.parallelism(),
        &path.child("parallelism"),
        errors,
    );
    if let (Some(max), Some(completions)) = (spec.max_failed_indexes(), completions)
        && max > completions
    {
        let text = "must be less than or equal to completions";
        errors.push(FieldError::invalid(&path.child("maxFailedIndexes"), max, text));
    }
    at_most(COMPLETIONS_SOFT_LIMIT, "", spec.max_failed_indexes(), &path.child("maxFailedIndexes"), errors);
    if completions.is_none_or(|completions| completions <= COMPLETIONS_SOFT_LIMIT)
        || spec.backoff_limit_per_index().is_none()
    {
        return;
    }
    if spec.max_failed_indexes().is_none() {
        let text = format!("must be specified when completions is above {COMPLETIONS_SOFT_LIMIT}");
        errors.push(FieldError::required(&path.child("maxFailedIndexes"), text));
    }
    let when = format!(" when completions are above {COMPLETIONS_SOFT_LIMIT} and used with backoff limit per index");
    at_most(HIGH_COMPLETIONS_LIMIT, &when, spec.parallelism(), &path.child("parallelism"), errors);
    at_most(HIGH_COMPLETIONS_LIMIT, &when, spec.max_failed_indexes(), &path.child("maxFailedIndexes"), errors);
}

fn at_most(most: i64, when: &str, value: Option<i64>, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(value) = value.filter(|value| *value > most) {
        errors.push(FieldError::invalid(path, value, format!("must be less than or equal to {most}{when}")));
    }
}

/// Warns of more indexes than a status can list.
pub fn warnings(node: &Struct, path: &Path<'_>, warnings: &mut Vec<String>) {
    let spec = JobSpec::new(node);
    let above = |value: Option<i64>, limit| value.is_some_and(|value| value > limit);
    if spec.completion_mode() == Some("Indexed")
        && above(spec.completions(), COMPLETIONS_SOFT_LIMIT)
        && above(spec.parallelism(), HIGH_COMPLETIONS_LIMIT)
    {
        let text = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
                    Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
        warnings.push(format!("{path}: {text}"));
    }
}

/// The immutable fields of a Job's spec.
const IMMUTABLE_FIELDS: &[&str] =
    &["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];

/// Validates like upstream's `ValidateJobSpecUpdate`; the template of a CronJob may change freely.
pub fn validate_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let started = Job::new(old).status().start_time().is_some();
    let (Some(new), Some(old)) = (new.get("spec"), old.get("spec")) else { return };
    let (Some(new), Some(old), path) = (new.as_struct(), old.as_struct(), path.child("spec")) else { return };
    let (now, before) = (JobSpec::new(new), JobSpec::new(old));
    for field in IMMUTABLE_FIELDS {
        immutable(new.get(field), old.get(field), &path.child(field), errors);
    }
    let at = path.child("completions");
    if now.completion_mode() != Some("Indexed") {
        immutable(new.get("completions"), old.get("completions"), &at, errors);
    } else if let Some(n) = now.completions()
        && Some(n) != before.completions()
        && Some(n) != now.parallelism()
    {
        // Indexed Jobs may change their size as long as all indexes run at once.
        errors.push(FieldError::invalid(&at, n, "can only be modified in tandem with spec.parallelism"));
    }
    let Some(mut template) = old.get("template").cloned() else { return };
    // A Job that was started may have created pods from its template.
    if before.suspend() == Some(true)
        && !started
        && let (Some(new), Some(old)) = (new.get("template"), template.as_struct_mut())
    {
        // While a Job is suspended, the scheduling fields of its template may change.
        for field in [
            ["spec", "nodeSelector"],
            ["spec", "tolerations"],
            ["spec", "schedulingGates"],
            ["metadata", "annotations"],
            ["metadata", "labels"],
        ] {
            take(new, old, &field);
        }
        if old.at(&["spec", "affinity"]).is_some() || new.at(&["spec", "affinity", "nodeAffinity"]).is_some() {
            take(new, old, &["spec", "affinity", "nodeAffinity"]);
        }
    }
    immutable(new.get("template"), Some(&template), &path.child("template"), errors);
}

/// Copies the value at a path from one template to the other.
fn take(from: &Value, into: &mut Struct, path: &[&str]) {
    if let Some(value) = from.at(path) {
        into.set_at(path, value.clone());
        return;
    }
    let Some((last, parents)) = path.split_last() else { return };
    let mut node = Some(into);
    for name in parents {
        node = node.and_then(|n| n.get_mut(name)).and_then(Value::as_struct_mut);
    }
    if let Some(node) = node {
        node.remove_name(last);
    }
}

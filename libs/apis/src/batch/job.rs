//! Job.

use oarlock_meta::field::{Omit, Raw};
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::batch_v1::{Job, JobMut, JobSpec, PodFailurePolicyRule};
use oarlock_schema::{FromValue as _, Struct, Value};

use crate::apps::workload::matching;
use crate::rules::{immutable, selector, show};

/// Upstream `SetDefaults_Job`. Job templates of CronJobs get these only when a Job is made of them.
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
        // Limits per index replace the limit of the whole.
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

/// A Job selects its own pods, by labels that the server generates unless `manualSelector` says otherwise.
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
}

/// A selector that the server made picks the pods of this Job and no others (upstream `validateGeneratedSelector`).
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

/// Upstream `validateJobSpec`; its numbers are checked by the row.
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
    if let Some(policy) = spec.pod_replacement_policy() {
        // A policy about failed pods needs them to have ended.
        let allowed: &[&str] =
            if spec.pod_failure_policy().is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        crate::rules::one_of(policy, allowed, &path.child("podReplacementPolicy"), errors);
    }
}

/// What upstream looks at after the template: pods of a Job end.
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
    let indexed = match spec.completion_mode() {
        None | Some("NonIndexed") => false,
        Some("Indexed") => true,
        Some(other) => {
            errors.push(FieldError::not_supported(&path.child("completionMode"), other, &["NonIndexed", "Indexed"]));
            return;
        }
    };
    if !indexed {
        let text = "requires indexed completion mode";
        let limits =
            [("backoffLimitPerIndex", spec.backoff_limit_per_index()), ("maxFailedIndexes", spec.max_failed_indexes())];
        for (field, limit) in limits {
            if let Some(limit) = limit {
                errors.push(FieldError::invalid(&path.child(field), limit, text));
            }
        }
        if let Some(policy) = spec.success_policy().and_then(View::node) {
            errors.push(FieldError::invalid(&path.child("successPolicy"), Raw(show::internal(policy)), text));
        }
        return;
    }
    let Some(completions) = spec.completions() else {
        errors.push(FieldError::required(&path.child("completions"), "when completion mode is Indexed"));
        return;
    };
    if let Some(n) = spec.parallelism().filter(|n| *n > 100_000) {
        let text = "must be less than or equal to 100000 when completion mode is Indexed";
        errors.push(FieldError::invalid(&path.child("parallelism"), n, text));
    }
    if let Some(n) = spec.max_failed_indexes().filter(|n| *n > completions) {
        errors.push(FieldError::invalid(
            &path.child("maxFailedIndexes"),
            n,
            "must be less than or equal to completions",
        ));
    }
}

/// One rule about failed pods.
pub fn validate_failure_rule(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let rule = PodFailurePolicyRule::new(node);
    let action = path.child("action");
    match rule.action() {
        "" => {
            errors.push(FieldError::required(&action, "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"))
        }
        other => crate::rules::one_of(other, &["Count", "FailIndex", "FailJob", "Ignore"], &action, errors),
    }
    match (rule.on_exit_codes().is_some(), rule.on_pod_conditions().is_empty()) {
        (false, true) => {
            errors.push(FieldError::invalid(
                path,
                Omit,
                "specifying one of OnExitCodes and OnPodConditions is required",
            ));
        }
        (true, false) => {
            errors.push(FieldError::invalid(
                path,
                Omit,
                "specifying both OnExitCodes and OnPodConditions is not supported",
            ));
        }
        _ => {}
    }
}

/// Fields of a Job's spec that never change.
const FIXED: &[&str] =
    &["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];

/// Upstream `ValidateJobSpecUpdate`; the template of a CronJob may change as it likes.
pub fn validate_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let (Some(new), Some(old)) = (new.get("spec"), old.get("spec")) else { return };
    let (Some(new), Some(old), path) = (new.as_struct(), old.as_struct(), path.child("spec")) else { return };
    let (now, before) = (JobSpec::new(new), JobSpec::new(old));
    for field in FIXED {
        immutable(new.get(field), old.get(field), &path.child(field), errors);
    }
    let at = path.child("completions");
    if now.completion_mode() != Some("Indexed") {
        immutable(new.get("completions"), old.get("completions"), &at, errors);
    } else if let Some(n) = now.completions()
        && Some(n) != before.completions()
        && Some(n) != now.parallelism()
    {
        // Indexed jobs may grow and shrink as long as all indexes run at once.
        errors.push(FieldError::invalid(&at, n, "can only be modified in tandem with spec.parallelism"));
    }
    let Some(mut template) = old.get("template").cloned() else { return };
    if before.suspend() == Some(true)
        && let (Some(new), Some(old)) = (new.get("template"), template.as_struct_mut())
    {
        // While a job is suspended, where its pods run may still be decided.
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

/// Takes what stands at a path from one template into the other.
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

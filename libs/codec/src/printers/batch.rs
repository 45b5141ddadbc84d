//! Printers of jobs and cron jobs.

use oarlock_schema::Value;
use oarlock_schema::views::batch_v1::{CronJob, Job};

use super::text::{NONE, UNSET, containers, selector};
use super::{Now, cells, now};

pub(super) fn job(obj: Job<'_>, now: Now) -> Vec<Value> {
    let (meta, spec, status) = (obj.metadata(), obj.spec(), obj.status());
    let done = status.succeeded();
    let completions = match (spec.completions(), spec.parallelism().unwrap_or(0)) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, parallel @ 2..) => format!("{done}/1 of {parallel}"),
        (None, _) => format!("{done}/1"),
    };
    let duration = match (status.start_time(), status.completion_time()) {
        (None, _) => String::new(),
        (Some(start), None) => now.since(start),
        (Some(start), Some(end)) => now::between(start, end),
    };
    let (names, images) = containers(spec.template().spec().containers());
    cells![
        meta.name(),
        state(obj),
        completions,
        duration,
        now.since(meta.creation_timestamp()),
        names,
        images,
        selector(spec.selector()),
    ]
}

fn state<'a>(job: Job<'a>) -> &'a str {
    let conditions = job.status().conditions();
    let holds = |kind: &str| conditions.iter().find(|c| c.type_() == kind).is_some_and(|c| c.status() == "True");
    if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if job.metadata().deletion_timestamp().is_some() {
        "Terminating"
    } else {
        let later = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        later.into_iter().find(|kind| holds(kind)).unwrap_or("Running")
    }
}

pub(super) fn cron_job(obj: CronJob<'_>, now: Now) -> Vec<Value> {
    let (meta, spec, status) = (obj.metadata(), obj.spec(), obj.status());
    let job = spec.job_template().spec();
    let (names, images) = containers(job.template().spec().containers());
    let suspend = match spec.suspend() {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    cells![
        meta.name(),
        spec.schedule(),
        spec.time_zone().unwrap_or(NONE),
        suspend,
        i64::try_from(status.active().len()).unwrap_or(i64::MAX),
        status.last_schedule_time().map_or_else(|| NONE.to_owned(), |at| now.since(at)),
        now.since(meta.creation_timestamp()),
        names,
        images,
        selector(job.selector()),
    ]
}

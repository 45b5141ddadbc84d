//! Defaults and validation of CronJob.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::batch_v1::CronJob;

use super::cron;

/// The longest name in bytes; a Job's name is the CronJob's name with up to eleven digits.
const MAX_NAME_BYTES: usize = 52;

/// Validates like upstream's `ValidateCronJobCreate`, `validateCronJobSpec`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let cron_job = CronJob::new(node);
    let name = cron_job.metadata().name();
    if name.len() > MAX_NAME_BYTES {
        let at = path.child("metadata");
        errors.push(FieldError::invalid(&at.child("name"), name, "must be no more than 52 characters"));
    }
    let spec = cron_job.spec();
    let at = path.child("spec");
    schedule(spec.schedule(), &at.child("schedule"), errors);
    if let Some(zone) = spec.time_zone() {
        time_zone(zone, &at.child("timeZone"), errors);
    }
    if spec.job_template().spec().manual_selector() == Some(true) {
        let here = at.child("jobTemplate");
        let here = here.child("spec");
        errors.push(FieldError::not_supported(&here.child("manualSelector"), Raw("true"), &["nil", "false"]));
    }
}

fn schedule(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if text.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let rest = match text.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest.trim(),
        _ => text,
    };
    if let Err(error) = cron::check(rest) {
        errors.push(FieldError::invalid(path, text, error));
    }
    if text.contains("TZ") {
        let error = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(FieldError::invalid(path, text, error));
    }
}

/// Validates the form of a time zone name. Existence is not checked here, as it depends on the time zone database.
fn time_zone(zone: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let part = |p: &str| {
        !matches!(p, "." | "..")
            && !p.starts_with('-')
            && (1..=14).contains(&p.len())
            && p.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+".contains(&b))
    };
    if zone.is_empty() {
        errors.push(FieldError::invalid(path, zone, "timeZone must be nil or non-empty string"));
    } else if !zone.split('/').all(part) {
        errors.push(FieldError::invalid(path, zone, format!("unknown time zone {zone}")));
    } else if zone.eq_ignore_ascii_case("local") {
        let text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(FieldError::invalid(path, zone, text));
    }
}

//! Rules of the batch group: defaults, validation and warnings.

use crate::type_rules::TypeRules;

pub mod cron;
pub mod cron_job;
mod indexes;
pub mod job;
pub mod job_status;
mod policies;

/// The rules of the batch group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("batch/v1.Job")
        .default(job::default)
        .validate(job::validate)
        .validate_update(job::validate_update)
        .status(job_status::validate_change),
    TypeRules::of("batch/v1.JobSpec")
        .non_negative(&[
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
        ])
        .validate(job::validate_spec)
        .after(job::after)
        .warnings(job::warnings),
    TypeRules::of("batch/v1.CronJob").validate(cron_job::validate),
    TypeRules::of("batch/v1.CronJobSpec")
        .non_negative(&["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"])
        .enums(&["concurrencyPolicy"]),
];

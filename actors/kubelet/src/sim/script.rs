//! Parses the annotations that control a simulated container: `sim.oarlock.dev/<container>.<setting>`, or `sim.oarlock.dev/<setting>` for all containers.

use std::time::Duration;

use oarlock_meta::GoDuration;
use oarlock_schema::Str;

use crate::cri::{Error, Result};

/// Prefix of the annotations.
pub const PREFIX: &str = "sim.oarlock.dev/";

/// Behaviour of a simulated container. Without annotations it starts at once, writes one line, and runs until stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// `pull-delay`: duration of the image pull.
    pub pull_delay: Option<Duration>,
    /// `start-delay`: duration of the start.
    pub start_delay: Option<Duration>,
    /// `ready-after`: time from start to readiness; by default the first probe's delay.
    pub ready_after: Option<Duration>,
    /// `exit-after`: time from start to exit; zero if only `exit-code` is given.
    pub exit_after: Option<Duration>,
    /// `exit-code`: exit code.
    pub exit_code: i32,
    /// `exit-times`: number of starts that exit; later starts keep running.
    pub exit_times: Option<u32>,
    /// `oom`: a failed exit has reason OOMKilled.
    pub oom: bool,
    /// `stop-delay`: time from SIGTERM to exit; with a longer time than the grace period the container is killed (137).
    pub stop_delay: Option<Duration>,
    /// `stop-exit-code`: exit code after SIGTERM (default 143).
    pub stop_exit_code: Option<i32>,
    /// `fail`: `pull`, `create` or `start` fails, with an optional text after a colon.
    pub fail: Option<Str>,
    /// `log-lines`: number of log lines; unlimited if only `log-interval` is given.
    pub log_lines: Option<u64>,
    /// `log-interval`: time between two lines.
    pub log_interval: Option<Duration>,
}

impl Script {
    /// Parses the annotations for a container; `None` when none applies.
    ///
    /// # Errors
    /// [`Error::Failed`] names an annotation with an invalid value.
    pub fn of(annotations: &[(Str, Str)], container: &str) -> Result<Option<Self>> {
        let mut script = None;
        // Annotations with the container's name override general ones, whatever the order of keys.
        for named in [false, true] {
            for (key, value) in annotations {
                let Some(rest) = key.strip_prefix(PREFIX) else { continue };
                let what = match rest.rsplit_once('.') {
                    Some((name, what)) if named && name == container => what,
                    None if !named => rest,
                    _ => continue,
                };
                let script = script.get_or_insert_with(Self::default);
                script.set(what, value).map_err(|why| Error::Failed(format!("annotation {key}: {why}")))?;
            }
        }
        Ok(script)
    }

    /// Returns the error of starting the pod's sandbox (`sandbox.fail`), if set.
    #[must_use]
    pub fn sandbox_failure(annotations: &[(Str, Str)]) -> Option<String> {
        let found = annotations.iter().find(|(key, _)| key.strip_prefix(PREFIX) == Some("sandbox.fail"));
        found.map(|(_, text)| text.to_string())
    }

    fn set(&mut self, what: &str, value: &str) -> std::result::Result<(), String> {
        let duration = || {
            let parsed = GoDuration::parse(value).map_err(|error| error.to_string())?;
            parsed.to_std().map(Some).ok_or_else(|| "must not be negative".to_owned())
        };
        fn number<T: std::str::FromStr<Err: std::fmt::Display>>(value: &str) -> std::result::Result<T, String> {
            value.parse().map_err(|error: T::Err| error.to_string())
        }
        match what {
            "pull-delay" => self.pull_delay = duration()?,
            "start-delay" => self.start_delay = duration()?,
            "ready-after" => self.ready_after = duration()?,
            "exit-after" => self.exit_after = duration()?,
            "exit-code" => {
                self.exit_code = number(value)?;
                self.exit_after = self.exit_after.or(Some(Duration::ZERO));
            }
            "exit-times" => self.exit_times = Some(number(value)?),
            "oom" => self.oom = number(value)?,
            "stop-delay" => self.stop_delay = duration()?,
            "stop-exit-code" => self.stop_exit_code = Some(number(value)?),
            "fail" if matches!(self::stage(value), "pull" | "create" | "start") => self.fail = Some(value.into()),
            "fail" => return Err("must be pull, create or start".to_owned()),
            "log-lines" => self.log_lines = Some(number(value)?),
            "log-interval" => self.log_interval = duration()?,
            _ => return Err("is not known".to_owned()),
        }
        Ok(())
    }

    fn failure(&self, stage: &str, usual: impl FnOnce() -> String) -> Option<String> {
        let fail = self.fail.as_deref().filter(|fail| self::stage(fail) == stage)?;
        Some(fail.split_once(':').map_or_else(usual, |(_, text)| text.trim().to_owned()))
    }

    pub(super) fn pull_failure(&self, image: &str) -> Option<String> {
        let usual =
            || format!("rpc error: code = NotFound desc = failed to pull and unpack image \"{image}\": not found");
        self.failure("pull", usual)
    }

    pub(super) fn create_failure(&self) -> Option<String> {
        self.failure("create", || "simulated failure to create the container".to_owned())
    }

    pub(super) fn start_failure(&self) -> Option<String> {
        self.failure("start", || "simulated failure to start the container".to_owned())
    }

    /// Returns when the start after `attempt` others exits.
    pub(super) fn exit_after(&self, attempt: u32) -> Option<Duration> {
        self.exit_after.filter(|_| self.exit_times.is_none_or(|times| attempt < times))
    }

    /// Returns the number of lines, and the time between two.
    pub(super) fn log(&self) -> (u64, Duration) {
        let interval = self.log_interval.unwrap_or_default();
        (self.log_lines.unwrap_or(if interval.is_zero() { 1 } else { u64::MAX }), interval)
    }
}

fn stage(fail: &str) -> &str {
    fail.split_once(':').map_or(fail, |(stage, _)| stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> Vec<(Str, Str)> {
        pairs.iter().map(|(key, value)| (format!("{PREFIX}{key}").into(), (*value).into())).collect()
    }

    #[test]
    fn what_names_the_container_wins_over_what_does_not() {
        let all =
            annotations(&[("exit-code", "1"), ("start-delay", "1s"), ("web.exit-code", "2"), ("db.start-delay", "9s")]);
        let web = Script::of(&all, "web").unwrap().unwrap();
        assert_eq!((web.exit_code, web.start_delay), (2, Some(Duration::from_secs(1))));
        assert_eq!(web.exit_after(0), Some(Duration::ZERO));
        let db = Script::of(&all, "db").unwrap().unwrap();
        assert_eq!((db.exit_code, db.start_delay), (1, Some(Duration::from_secs(9))));
        assert_eq!(Script::of(&annotations(&[("web.oom", "true")]), "db").unwrap(), None);
    }

    #[test]
    fn exits_only_so_many_times() {
        let script = Script::of(&annotations(&[("exit-after", "5s"), ("exit-times", "2")]), "c").unwrap().unwrap();
        let exits: Vec<bool> = (0..4).map(|attempt| script.exit_after(attempt).is_some()).collect();
        assert_eq!(exits, [true, true, false, false]);
    }

    #[test]
    fn names_the_annotation_that_cannot_be_read() {
        for (key, value, why) in [
            ("exit-after", "soon", "time: invalid duration \"soon\""),
            ("stop-delay", "-1s", "must not be negative"),
            ("fail", "run", "must be pull, create or start"),
            ("colour", "red", "is not known"),
        ] {
            let error = Script::of(&annotations(&[(key, value)]), "c").unwrap_err();
            assert_eq!(error.to_string(), format!("annotation {PREFIX}{key}: {why}"));
        }
    }

    #[test]
    fn a_failure_may_say_its_own_text() {
        let of = |value: &str| Script::of(&annotations(&[("fail", value)]), "c").unwrap().unwrap();
        assert_eq!(of("create: no space left").create_failure().as_deref(), Some("no space left"));
        assert_eq!(of("create").pull_failure("i"), None);
        assert!(of("pull").pull_failure("nginx").unwrap().contains("\"nginx\": not found"));
    }
}

//! Handles `/containerLogs/<namespace>/<pod>/<container>?…` requests: the container, the options, and texts of refusals.

use oarlock_meta::Time;
use oarlock_schema::Str;

use crate::cri::LogOptions;
use crate::pod::{Pod, State, specs};

/// A request for a container's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogRequest {
    pub(crate) namespace: Str,
    pub(crate) pod: Str,
    pub(crate) container: Str,
    /// Whether the previous container's log is requested.
    pub(crate) previous: bool,
    pub(crate) options: LogOptions,
}

/// HTTP code and text of a refused request.
pub(crate) type Refusal = (u16, String);

impl LogRequest {
    /// Parses path (after `/containerLogs/`) and query. `sinceSeconds` counts back from `now`.
    pub(crate) fn parse(path: &str, query: &str, now: i64) -> Result<Self, Refusal> {
        let mut parts = path.split('/').filter(|part| !part.is_empty()).map(Str::from);
        let missing = |what: &str| (400, format!("{{\"message\": \"Missing {what}.\"}}"));
        let mut ask = Self {
            namespace: parts.next().ok_or_else(|| missing("podNamespace"))?,
            pod: parts.next().ok_or_else(|| missing("podID"))?,
            container: parts.next().ok_or_else(|| missing("container name"))?,
            previous: false,
            options: LogOptions::default(),
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            ask.option(name, value, now)?;
        }
        Ok(ask)
    }

    fn option(&mut self, name: &str, value: &str, now: i64) -> Result<(), Refusal> {
        let undecodable = || (400, "{\"message\": \"Unable to decode query.\"}".to_owned());
        let invalid = || (422, "{\"message\": \"Invalid request.\"}".to_owned());
        let number = || value.parse::<i64>().map_err(|_| undecodable());
        // A boolean parameter is true without a value, and with any value but these (upstream `Convert_Slice_string_To_bool`).
        let flag = || !matches!(value.to_ascii_lowercase().as_str(), "false" | "0");
        let positive =
            |number: i64, least: i64| u64::try_from(number).ok().filter(|_| number >= least).ok_or_else(invalid);
        match name {
            "follow" => self.options.follow = flag(),
            "previous" => self.previous = flag(),
            "timestamps" => self.options.timestamps = flag(),
            "tailLines" => self.options.tail_lines = Some(positive(number()?, 0)?),
            "limitBytes" => self.options.limit_bytes = Some(positive(number()?, 1)?),
            "sinceSeconds" => {
                let seconds = positive(number()?, 1)?;
                self.options.since = Some(now.saturating_sub(i64::try_from(seconds).unwrap_or(i64::MAX)));
            }
            "sinceTime" => {
                let text = value.replace("%3A", ":").replace("%3a", ":").replace("%2B", "+").replace("%2b", "+");
                self.options.since = Some(Time::parse(&text).map_err(|_| undecodable())?.unix());
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the container id whose log is requested (upstream `validateContainerLogStatus` and its texts).
pub(crate) fn choose(pod: &Pod, ask: &LogRequest) -> Result<Str, Refusal> {
    let (name, pod_name) = (&ask.container, &ask.pod);
    let at = specs(pod.template()).position(|spec| spec.name == *name);
    let Some(container) = at.and_then(|at| pod.containers.get(at)) else {
        return Err((404, format!("container \"{name}\" not found in pod \"{pod_name}\"")));
    };
    let no = |text: String| Err((400, format!("container \"{name}\" in pod \"{pod_name}\" {text}")));
    let last = container.last.as_ref().map(|end| end.id.clone()).filter(|id| !id.is_empty());
    if ask.previous {
        return last
            .ok_or_else(|| (400, format!("previous terminated container \"{name}\" in pod \"{pod_name}\" not found")));
    }
    match (&container.state, last) {
        (State::Running(_), _) => Ok(container.id.clone()),
        (State::Ended(end), _) if !end.id.is_empty() => Ok(end.id.clone()),
        (_, Some(id)) => Ok(id),
        (State::Ended(_), None) => no("is terminated".to_owned()),
        (State::Waiting { reason, .. }, None) => match *reason {
            "ErrImagePull" => no("is waiting to start: image can't be pulled".to_owned()),
            "ImagePullBackOff" => no("is waiting to start: trying and failing to pull image".to_owned()),
            "" if pod.template().init.is_empty() => no("is waiting to start: ContainerCreating".to_owned()),
            "" => no("is waiting to start: PodInitializing".to_owned()),
            reason => no(format!("is waiting to start: {reason}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_requests_are_refused_or_read() {
        let whole = "ns/pod/main?follow=true&tailLines=5&limitBytes=9&sinceSeconds=60&sinceTime=2026-01-01T00:00:00Z&timestamps=1";
        let mut read = 0;
        for text in oarlock_testkit::damaged_text(1, whole, 3000) {
            let (path, query) = text.split_once('?').unwrap_or((&text, ""));
            match LogRequest::parse(path, query, 1_800_000_000) {
                Ok(_) => read += 1,
                Err((code, _)) => assert!(matches!(code, 400 | 422), "{code} for {text}"),
            }
        }
        assert!(read > 500, "only {read} were still readable");
    }

    #[test]
    fn reads_path_and_options() {
        let query = "follow=true&previous=false&tailLines=3&sinceSeconds=10&timestamps=1&limitBytes=9&stream=All";
        let ask = LogRequest::parse("/default/web/main", query, 1000).unwrap();
        assert_eq!((ask.namespace.as_str(), ask.pod.as_str(), ask.container.as_str()), ("default", "web", "main"));
        let wanted =
            LogOptions { follow: true, tail_lines: Some(3), since: Some(990), timestamps: true, limit_bytes: Some(9) };
        assert_eq!((ask.options, ask.previous), (wanted, false));
        let since = LogRequest::parse("/d/p/c", "sinceTime=2026-01-02T03%3A04%3A05Z", 0).unwrap();
        assert_eq!(since.options.since, Some(1_767_323_045));
    }

    #[test]
    fn refuses_with_upstreams_codes_and_texts() {
        let cases = [
            ("/d/p", "", 400, "{\"message\": \"Missing container name.\"}"),
            ("/d", "", 400, "{\"message\": \"Missing podID.\"}"),
            ("/d/p/c", "tailLines=x", 400, "{\"message\": \"Unable to decode query.\"}"),
            ("/d/p/c", "tailLines=-1", 422, "{\"message\": \"Invalid request.\"}"),
            ("/d/p/c", "limitBytes=0", 422, "{\"message\": \"Invalid request.\"}"),
            ("/d/p/c", "sinceSeconds=0", 422, "{\"message\": \"Invalid request.\"}"),
        ];
        for (path, query, code, text) in cases {
            assert_eq!(LogRequest::parse(path, query, 0), Err((code, text.to_owned())), "{path}?{query}");
        }
    }
}

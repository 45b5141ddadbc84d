//! Runs lifecycle hooks: postStart and preStop (`pkg/kubelet/lifecycle`).

mod error;

use std::net::IpAddr;
use std::time::Duration;

use oarlock_runtime::clock;
use oarlock_schema::Str;
use oarlock_schema::views::core_v1::{Container, LifecycleHandler};

use crate::probes::http::{self, HttpGet};
use crate::probes::{Exec, RequestError};
pub(crate) use error::{HookError, HookFailure};

/// Reason and message of the event about a failed postStart hook.
pub(crate) const FAILED_POST_START: (&str, &str) = ("FailedPostStartHook", "PostStartHook failed");
/// Reason and message of the event about a failed preStop hook.
pub(crate) const FAILED_PRE_STOP: (&str, &str) = ("FailedPreStopHook", "PreStopHook failed");
/// Longest time of a postStart hook. Upstream has no limit; a day is long enough that no working hook meets it.
pub(crate) const POST_START_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Action of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    Exec(Vec<Str>),
    Http(HttpGet),
    /// Sleep for this many seconds.
    Sleep(u64),
    /// `tcpSocket`, which the API keeps for old objects and no kubelet has ever run.
    Invalid,
}

/// The hooks of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hooks {
    pub(crate) post_start: Option<Hook>,
    pub(crate) pre_stop: Option<Hook>,
}

/// Container on which a hook runs.
#[derive(Clone, Debug)]
pub(crate) struct HookTarget {
    /// The runtime's id of the container.
    pub(crate) id: Str,
    /// Name of the container.
    pub(crate) container: Str,
    /// `name_namespace(uid)`.
    pub(crate) pod: String,
    /// The pod's address.
    pub(crate) ip: Option<IpAddr>,
}

/// Reason and message of a Warning about the pod from a hook that succeeded.
pub(crate) type HookWarning = Option<(&'static str, String)>;

impl Hooks {
    /// Returns the hooks of a container.
    pub(crate) fn of(container: Container<'_>) -> Self {
        let Some(lifecycle) = container.lifecycle() else { return Self::default() };
        let read = |handler: LifecycleHandler<'_>| {
            if let Some(exec) = handler.exec() {
                Hook::Exec(exec.command().iter().map(Str::from).collect())
            } else if let Some(get) = handler.http_get() {
                Hook::Http(HttpGet::read(get, container))
            } else if let Some(sleep) = handler.sleep() {
                Hook::Sleep(u64::try_from(sleep.seconds()).unwrap_or(0))
            } else {
                Hook::Invalid
            }
        };
        Self { post_start: lifecycle.post_start().map(read), pre_stop: lifecycle.pre_stop().map(read) }
    }
}

/// Runs a hook for at most `limit`: the rest of the grace period for a preStop hook, [`POST_START_LIMIT`] for a postStart hook.
///
/// # Errors
/// When the hook fails. Events must not contain the error's text, because it may include the hook's output.
pub(crate) async fn run<E: Exec + ?Sized>(
    hook: &Hook,
    target: &HookTarget,
    limit: Duration,
    runtime: &E,
) -> Result<HookWarning, HookError> {
    let (container, pod) = (target.container.clone(), target.pod.clone());
    match hook {
        Hook::Exec(command) => {
            let words = command.iter().map(Str::as_str).collect::<Vec<_>>().join(" ");
            let (why, output) = match clock::timeout(limit, runtime.run_in(&target.id, command, limit)).await {
                Ok(Ok(output)) if output.exit_code == 0 => return Ok(None),
                Ok(Ok(output)) => {
                    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                    let both = format!("{out}{err}");
                    let stderr = err.into_owned();
                    (HookFailure::Exited { command: words.clone(), code: output.exit_code, stderr }, both)
                }
                Ok(Err(error)) => (HookFailure::Runtime(error), String::new()),
                Err(_) => (HookFailure::NotCompleted(limit), String::new()),
            };
            Err(HookError::Exec { command: words, container, pod, why, output })
        }
        Hook::Http(get) => {
            let asked = clock::timeout(limit, ask(get, target)).await;
            let path = get.path.clone();
            let failure = |why| HookError::Http { path, container, pod, why };
            asked.unwrap_or(Err(HookFailure::NotCompleted(limit))).map_err(failure)
        }
        Hook::Sleep(seconds) => {
            let wanted = Duration::from_secs(*seconds);
            clock::sleep(wanted.min(limit)).await;
            if wanted <= limit { Ok(None) } else { Err(HookError::Sleep { seconds: *seconds, container, pod }) }
        }
        Hook::Invalid => Err(HookError::Invalid),
    }
}

/// Sends the request; any HTTP answer counts as success. A server that answers HTTPS in plain HTTP is asked again over HTTP.
async fn ask(get: &HttpGet, target: &HookTarget) -> Result<HookWarning, HookFailure> {
    let ip = match target.ip {
        None if get.host.is_empty() => return Err(HookFailure::NoAddress),
        ip => ip.map(|ip| ip.to_string()).unwrap_or_default(),
    };
    let mut target = get.target(&ip).map_err(HookFailure::Target)?;
    match http::get(&target, get, "lifecycle", None).await {
        Ok(_) => Ok(None),
        Err(error) if error.why == RequestError::PlainHttp => {
            target.https = false;
            let mut plain = get.clone();
            plain.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("Authorization"));
            http::get(&target, &plain, "lifecycle", None).await.map_err(|_| HookFailure::Request(error))?;
            let host = target.authority();
            let text = format!("request to HTTPS lifecycle hook {host} got HTTP response, retry with HTTP succeeded");
            Ok(Some(("LifecycleHTTPFallback", text)))
        }
        Err(error) => Err(HookFailure::Request(error)),
    }
}

#[cfg(test)]
mod tests;

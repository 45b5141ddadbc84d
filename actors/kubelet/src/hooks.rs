//! Runs lifecycle hooks: postStart and preStop (`pkg/kubelet/lifecycle`).

use std::net::IpAddr;
use std::time::Duration;

use oarlock_meta::quote::quote;
use oarlock_runtime::clock;
use oarlock_schema::Str;
use oarlock_schema::views::core_v1::{Container, LifecycleHandler};

use crate::probes::http::{self, HttpGet};
use crate::probes::{Exec, RequestError};

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
/// When the hook fails; upstream's text. Events must not contain it, because it may include the hook's output.
pub(crate) async fn run<E: Exec + ?Sized>(
    hook: &Hook,
    target: &HookTarget,
    limit: Duration,
    runtime: &E,
) -> Result<HookWarning, String> {
    let late = || format!("hook not completed in {} s", limit.as_secs());
    let of = format!("for Container {} in Pod {} failed - error", quote(&target.container), quote(&target.pod));
    match hook {
        Hook::Exec(command) => {
            let failure = |why: String, output: &str| {
                let command: Vec<&str> = command.iter().map(Str::as_str).collect();
                format!("Exec lifecycle hook ([{}]) {of}: {why}, message: {}", command.join(" "), quote(output))
            };
            match clock::timeout(limit, runtime.run_in(&target.id, command, limit)).await {
                Ok(Ok(output)) if output.exit_code == 0 => Ok(None),
                Ok(Ok(output)) => {
                    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                    let words: Vec<&str> = command.iter().map(Str::as_str).collect();
                    let why = format!("command '{}' exited with {}: {err}", words.join(" "), output.exit_code);
                    Err(failure(why, &format!("{out}{err}")))
                }
                Ok(Err(error)) => Err(failure(error.to_string(), "")),
                Err(_) => Err(failure(late(), "")),
            }
        }
        Hook::Http(get) => {
            let failure = |why: String| format!("HTTP lifecycle hook ({}) {of}: {why}", get.path);
            clock::timeout(limit, ask(get, target)).await.unwrap_or_else(|_| Err(late())).map_err(failure)
        }
        Hook::Sleep(seconds) => {
            let wanted = Duration::from_secs(*seconds);
            clock::sleep(wanted.min(limit)).await;
            if wanted <= limit {
                return Ok(None);
            }
            Err(format!("Sleep lifecycle hook ({seconds}) {of}: container terminated before sleep hook finished"))
        }
        Hook::Invalid => Err("Cannot run handler: invalid handler: tcpSocket is not supported".to_owned()),
    }
}

/// Sends the request; any HTTP answer counts as success. A server that answers HTTPS in plain HTTP is asked again over HTTP.
async fn ask(get: &HttpGet, target: &HookTarget) -> Result<HookWarning, String> {
    let ip = match target.ip {
        None if get.host.is_empty() => return Err("failed to find networking container: no address".to_owned()),
        ip => ip.map(|ip| ip.to_string()).unwrap_or_default(),
    };
    let mut target = get.target(&ip).map_err(|error| error.to_string())?;
    match http::get(&target, get, "lifecycle", None).await {
        Ok(_) => Ok(None),
        Err(error) if error.why == RequestError::PlainHttp => {
            target.https = false;
            let mut plain = get.clone();
            plain.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("Authorization"));
            http::get(&target, &plain, "lifecycle", None).await.map_err(|_| error.to_string())?;
            let host = target.authority();
            let text = format!("request to HTTPS lifecycle hook {host} got HTTP response, retry with HTTP succeeded");
            Ok(Some(("LifecycleHTTPFallback", text)))
        }
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests;

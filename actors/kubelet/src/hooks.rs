//! Lifecycle hooks: what runs after a container's start and before its end (`pkg/kubelet/lifecycle`).

use std::net::IpAddr;
use std::time::Duration;

use oarlock_meta::quote::quote;
use oarlock_runtime::clock;
use oarlock_schema::Str;
use oarlock_schema::views::core_v1::{Container, LifecycleHandler};

use crate::probes::http::{self, HttpGet};
use crate::probes::{Exec, PLAIN_HTTP};

/// Events about hooks: reason and message.
pub(crate) const FAILED_POST_START: (&str, &str) = ("FailedPostStartHook", "PostStartHook failed");
/// As [`FAILED_POST_START`].
pub(crate) const FAILED_PRE_STOP: (&str, &str) = ("FailedPreStopHook", "PreStopHook failed");
/// How long a postStart hook may take; upstream has no bound, and a day is none that anybody meets.
pub(crate) const POST_START_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// What a hook does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    Exec(Vec<Str>),
    Http(HttpGet),
    /// Seconds.
    Sleep(u64),
    /// The API keeps `tcpSocket` for old objects; it has never done anything.
    Invalid,
}

/// The hooks of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hooks {
    pub(crate) post_start: Option<Hook>,
    pub(crate) pre_stop: Option<Hook>,
}

/// Whose hook it is.
#[derive(Clone, Debug)]
pub(crate) struct Whose {
    /// The runtime's id.
    pub(crate) id: Str,
    /// Name of the container.
    pub(crate) container: Str,
    /// `name_namespace(uid)`.
    pub(crate) pod: String,
    /// The pod's address.
    pub(crate) ip: Option<IpAddr>,
}

/// What a hook that succeeded has to tell: reason and message of a Warning about the pod.
pub(crate) type Told = Option<(&'static str, String)>;

impl Hooks {
    /// The hooks of a container.
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

/// Runs a hook for at most `limit`: the rest of the grace period for a preStop hook, [`POST_START_LIMIT`] for the other.
///
/// # Errors
/// Upstream's text; it is not for events, because it may show what the hook printed.
pub(crate) async fn run<E: Exec + ?Sized>(
    hook: &Hook,
    whose: &Whose,
    limit: Duration,
    runtime: &E,
) -> Result<Told, String> {
    let late = || format!("hook not completed in {} s", limit.as_secs());
    let of = format!("for Container {} in Pod {} failed - error", quote(&whose.container), quote(&whose.pod));
    match hook {
        Hook::Exec(command) => {
            let told = |why: String, output: &str| {
                let command: Vec<&str> = command.iter().map(Str::as_str).collect();
                format!("Exec lifecycle hook ([{}]) {of}: {why}, message: {}", command.join(" "), quote(output))
            };
            match clock::timeout(limit, runtime.run_in(&whose.id, command, limit)).await {
                Ok(Ok(output)) if output.exit_code == 0 => Ok(None),
                Ok(Ok(output)) => {
                    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                    let words: Vec<&str> = command.iter().map(Str::as_str).collect();
                    let why = format!("command '{}' exited with {}: {err}", words.join(" "), output.exit_code);
                    Err(told(why, &format!("{out}{err}")))
                }
                Ok(Err(error)) => Err(told(error.to_string(), "")),
                Err(_) => Err(told(late(), "")),
            }
        }
        Hook::Http(get) => {
            let told = |why: String| format!("HTTP lifecycle hook ({}) {of}: {why}", get.path);
            clock::timeout(limit, ask(get, whose)).await.unwrap_or_else(|_| Err(late())).map_err(told)
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

/// Any answer will do. A server that speaks HTTP where HTTPS was said is asked again in HTTP.
async fn ask(get: &HttpGet, whose: &Whose) -> Result<Told, String> {
    let ip = match whose.ip {
        None if get.host.is_empty() => return Err("failed to find networking container: no address".to_owned()),
        ip => ip.map(|ip| ip.to_string()).unwrap_or_default(),
    };
    let mut target = get.target(&ip)?;
    match http::get(&target, get, "lifecycle", None).await {
        Ok(_) => Ok(None),
        Err(error) if error.why == PLAIN_HTTP => {
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

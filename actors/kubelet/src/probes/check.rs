//! Performs one check of a probe.

use std::net::IpAddr;
use std::time::Duration;

use oarlock_schema::Str;
use oarlock_schema::views::core_v1::{Container, Probe};

use super::error::RequestError;
use super::http::{Answer, HttpGet};
use super::port::{Port, number, port};
use super::{Exec, dial, grpc, http};
use crate::cri;
use crate::environment::static_command;

/// Method of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Runs a command in the container: exit code 0 is a success.
    Exec(Vec<Str>),
    /// Sends a GET request: a 2xx or 3xx answer is a success.
    Http(HttpGet),
    /// Opens a TCP connection. An empty host is the pod's address.
    Tcp { host: String, port: Port },
    /// Calls `grpc.health.v1.Health`.
    Grpc { port: Port, service: String },
    /// No method, which the API does not allow.
    Nothing,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Success,
    /// A success with a warning for users.
    Warning(String),
    Failure(String),
    /// No result: the word for it in events, and why.
    Error(&'static str, String),
}

/// Largest number of output bytes kept.
const MAX_OUTPUT_BYTES: usize = 10 << 10;

impl Check {
    pub(super) fn of_probe(probe: Probe<'_>, container: Container<'_>) -> Self {
        if let Some(exec) = probe.exec() {
            Self::Exec(static_command(exec.command().iter(), container))
        } else if let Some(get) = probe.http_get() {
            Self::Http(HttpGet::read(get, container))
        } else if let Some(socket) = probe.tcp_socket() {
            Self::Tcp { host: socket.host().to_owned(), port: port(socket.port(), container) }
        } else if let Some(grpc) = probe.grpc() {
            let service = grpc.service().unwrap_or("").to_owned();
            Self::Grpc { port: number(grpc.port()), service }
        } else {
            Self::Nothing
        }
    }

    /// Performs the check once.
    pub(super) async fn look<E: Exec + ?Sized>(
        &self,
        id: &str,
        ip: Option<IpAddr>,
        timeout: Duration,
        runtime: &E,
    ) -> Found {
        let unknown = |why: &RequestError| Found::Error("unknown", why.to_string());
        let pod = ip.map(|ip| ip.to_string()).unwrap_or_default();
        match self {
            Self::Exec(command) => exec(runtime.run_in(id, command, timeout).await),
            Self::Http(get) => match get.target(&pod) {
                Ok(target) => of_answer(http::get(&target, get, "probe", Some(timeout)).await),
                Err(why) => unknown(&why),
            },
            Self::Tcp { host, port } => match port {
                Ok(port) => match dial::connect(if host.is_empty() { &pod } else { host }, *port, timeout).await {
                    Ok(_) => Found::Success,
                    Err(why) => failure(&why, why.to_string()),
                },
                Err(why) => unknown(why),
            },
            Self::Grpc { port: Ok(port), service } => match grpc::check(&pod, *port, service, timeout).await {
                Ok(()) => Found::Success,
                Err(why) => failure(&why, why.to_string()),
            },
            Self::Grpc { port: Err(why), .. } => unknown(why),
            Self::Nothing => Found::Error("unknown", "missing probe handler".to_owned()),
        }
    }
}

fn exec(result: cri::Result<cri::ExecOutput>) -> Found {
    match result {
        Ok(output) if output.exit_code == 0 => Found::Success,
        Ok(output) => {
            let all: Vec<u8> = output.stdout.iter().chain(&output.stderr).copied().take(MAX_OUTPUT_BYTES).collect();
            Found::Failure(String::from_utf8_lossy(&all).into_owned())
        }
        Err(cri::Error::DeadlineExceeded(why)) => Found::Failure(format!("command timed out: {why}")),
        Err(error) => Found::Error("unknown", error.to_string()),
    }
}

fn of_answer(answer: Result<Answer, http::Error>) -> Found {
    match answer {
        Ok(answer) if (200..300).contains(&answer.code) => Found::Success,
        Ok(answer) if (300..400).contains(&answer.code) => {
            Found::Warning(format!("Probe terminated redirects, Response body: {}", answer.body))
        }
        // The body is left out: it may contain what only the prober may see.
        Ok(answer) => Found::Failure(format!("HTTP probe failed with statuscode: {}", answer.code)),
        Err(error) => failure(&error.why, error.to_string()),
    }
}

/// A failed request. The log says whether a later one can succeed while the pod stays as it is.
fn failure(error: &RequestError, text: String) -> Found {
    tracing::trace!(permanent = error.is_permanent(), text, "probe failed");
    Found::Failure(text)
}

//! `/livez`, `/readyz`, `/healthz`: named checks, all or one, as upstream words them.

use http::{Response, StatusCode};

use crate::http::options::Query;
use crate::http::{Body, service};
use crate::server::Server;

/// One check: its name and what is wrong, if anything.
type Check = (&'static str, fn(&Server) -> Option<String>);

/// The process lives.
const LIVE: &[Check] = &[("ping", |_| None), ("store", store_alive)];
/// It should get traffic.
const READY: &[Check] = &[
    ("ping", |_| None),
    ("store", store_alive),
    ("poststarthook/bootstrap", bootstrapped),
    ("shutdown", shutting_down),
];

fn store_alive(server: &Server) -> Option<String> {
    server.store().health().dead.then(|| "the store has failed".to_owned())
}

fn bootstrapped(server: &Server) -> Option<String> {
    (!server.state().is_bootstrapped()).then(|| "not finished".to_owned())
}

fn shutting_down(server: &Server) -> Option<String> {
    server.state().is_stopping().then(|| "process is shutting down".to_owned())
}

/// Answers a health path: `[name]` or `[name, check]`.
#[must_use]
pub(crate) fn answer(server: &Server, segments: &[&str], query: &Query) -> Response<Body> {
    let (name, one) = (segments.first().copied().unwrap_or("healthz"), segments.get(1..).unwrap_or(&[]).join("/"));
    let checks = if name == "readyz" { READY } else { LIVE };
    if !one.is_empty() {
        return match checks.iter().find(|(check, _)| *check == one) {
            None => service::text(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n"),
            Some((_, check)) => match check(server) {
                None => text(StatusCode::OK, "ok"),
                Some(why) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("internal server error: {why}\n")),
            },
        };
    }
    let mut report = String::new();
    let mut failed = false;
    for (check, run) in checks.iter().filter(|(check, _)| !query.all("exclude").any(|e| e == *check)) {
        match run(server) {
            None => report.push_str(&format!("[+]{check} ok\n")),
            Some(_) => {
                failed = true;
                report.push_str(&format!("[-]{check} failed: reason withheld\n"));
            }
        }
    }
    if failed {
        return text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{report}{name} check failed\n"));
    }
    if query.has("verbose") {
        text(StatusCode::OK, &format!("{report}{name} check passed\n"))
    } else {
        text(StatusCode::OK, "ok")
    }
}

fn text(code: StatusCode, body: &str) -> Response<Body> {
    service::text(code, "text/plain; charset=utf-8", body.to_owned())
}

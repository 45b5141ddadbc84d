//! The health checks of `/livez`, `/readyz` and `/healthz`.

use http::{Response, StatusCode};
use oarlock_serving::check::Finding;
use oarlock_serving::health::{self, Question};

use crate::http::options::Query;
use crate::http::{Body, text};
use crate::server::Server;

/// One check: its name, and a function that returns what is wrong, if anything.
type Check = (&'static str, fn(&Server) -> Option<String>);

/// Checks of `/livez`: the process is alive.
const LIVE: &[Check] = &[("ping", |_| None), ("store", store_alive)];
/// Checks of `/readyz`: the server should receive traffic.
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

/// Answers a health path, given as `[name]` or `[name, check]`.
#[must_use]
pub(crate) fn answer(server: &Server, segments: &[&str], query: &Query) -> Response<Body> {
    let endpoint = segments.first().copied().unwrap_or("healthz");
    let check = segments.get(1..).unwrap_or(&[]).join("/");
    let checks = if endpoint == "readyz" { READY } else { LIVE };
    let find = |(name, look): &Check| Finding { name, wrong: look(server), informs: false };
    let findings: Vec<Finding> = checks.iter().map(find).collect();
    let (verbose, exclude) = (query.has("verbose"), query.all("exclude").collect());
    let (code, text) = health::answer(&Question { endpoint, check: &check, verbose, exclude }, &findings);
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    text::reply(code, "text/plain; charset=utf-8", text)
}

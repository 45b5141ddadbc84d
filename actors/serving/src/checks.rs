//! The liveness and readiness checks of a component.

use http::Request;
use oarlock_bus::Bus;
use oarlock_mesh::Placement;
use oarlock_runtime::{ActorKind, System};

use crate::actors;
use crate::answer::{self, Answer};
use crate::check::Check;
use crate::health::{self, Question};
use crate::query::Query;

/// Runs the checks of an endpoint and answers a request for all of them, or for one if `check` is not empty.
pub(crate) fn answer<B>(endpoint: &str, check: &str, checks: &[Check], request: &Request<B>) -> Answer {
    let findings: Vec<_> = checks.iter().map(Check::find).collect();
    let query = Query::of(request);
    let (verbose, exclude) = (query.has("verbose"), query.all("exclude").collect());
    let (code, text) = health::answer(&Question { endpoint, check, verbose, exclude }, &findings);
    answer::text(code, text)
}

/// A check that fails while `wrong` returns a reason.
fn unless(name: &'static str, wrong: impl Fn() -> Option<String> + Send + Sync + 'static) -> Check {
    Check::new(name, move || wrong().map_or(Ok(()), Err))
}

/// The liveness checks: no actor has failed for good, and no actor blocks a thread.
pub(crate) fn live(system: &System) -> Vec<Check> {
    let (all, spins) = (system.clone(), system.clone());
    let lost = move || all.fatal().map(|fatal| fatal.to_string()).or_else(|| actors::given_up(&all.snapshot()));
    let stuck = move || spins.spinning().first().map(|name| format!("{name} does not yield"));
    vec![Check::new("ping", || Ok(())), unless("actors", lost), unless("watchdog", stuck)]
}

/// The readiness checks: actors of `kinds` run and are synced, and the process is not shutting down.
pub(crate) fn ready(system: &System, kinds: Vec<&'static ActorKind>) -> Vec<Check> {
    let (reads, ends) = (system.clone(), system.clone());
    let mut checks = vec![Check::new("ping", || Ok(()))];
    if !kinds.is_empty() {
        checks.push(unless("informer-sync", move || actors::unsynced(&reads.snapshot(), &kinds)));
    }
    checks.push(unless("shutdown", move || ends.is_closing().then(|| "process is shutting down".to_owned())));
    checks
}

/// The readiness checks of a component that shares its role's units with other processes: the member's Lease must be valid. The bus is reported only,
/// because a component works without one.
#[must_use]
pub fn of_crew(placement: &Placement, on: Option<&Bus>) -> Vec<Check> {
    let placement = placement.clone();
    let lease = move || (!placement.has_valid_lease()).then(|| "its Lease does not stand".to_owned());
    std::iter::once(unless("membership", lease)).chain(on.map(|on| bus(on).informs())).collect()
}

/// The readiness check of a component that needs the bus: the bus must be connected.
#[must_use]
pub fn bus(bus: &Bus) -> Check {
    let bus = bus.downgrade();
    unless("bus", move || match bus.upgrade().map(|bus| bus.state().connected) {
        Some(true) => None,
        Some(false) => Some("not connected".to_owned()),
        None => Some("left".to_owned()),
    })
}

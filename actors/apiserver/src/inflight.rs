//! How many requests are under way at once, and who may still begin one when there are many.
//!
//! Upstream's two limits (`WithMaxInFlightLimit`): one for requests that read, one for requests that change something. A request beyond its limit is
//! answered with 429, `Retry-After: 1` and upstream's text, without waiting; `system:masters` always pass, and requests that go on for long by
//! nature (watch, log, exec, attach, portforward, proxy) are not counted. Probes pass too (upstream: flow schema `probes`).
//!
//! Upstream's priority and fairness keeps one client from starving all others. Until Oarlock has it, three rules stand in for it:
//!
//! * A quarter of each limit is out of reach for ordinary users. System users (nodes, scheduler, controllers, accounts of `kube-system`) and
//!   everybody's Leases may take half of that quarter; the other half is for the heartbeats of system users alone: their Leases, and
//!   Nodes with their status.
//! * When more than half of what ordinary users may take is taken, none of them begins another request while it holds its share: the whole,
//!   divided by how many ordinary users hold a request or were refused within the last two seconds. A user that is alone has three quarters of
//!   it: whoever comes next finds room at once.
//! * A seat is held while the server works, from when the body is there until the head of the answer is: not while a client sends or reads.
//!
//! Bodies that clients are still sending are counted by their bytes, under the same three rules ([`Inflight::body`]): they hold memory and nothing
//! else.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};
use oarlock_auth::{UserInfo, user};
use oarlock_runtime::{Instant, clock};
use oarlock_schema::Str;
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::http::request_info::RequestInfo;
use crate::http::{Body, full};

/// How long a refused user counts as one that wants a share: clients try again after `Retry-After`, one second.
const WAITS: Duration = Duration::from_secs(2);
/// How many refused users are remembered at most.
const REMEMBERED: usize = 256;

/// Limits of a server. Zero is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests at once that read.
    pub reads: usize,
    /// Requests at once that change something.
    pub writes: usize,
    /// Connections at once.
    pub connections: usize,
}

impl Default for Limits {
    /// Upstream's 400 and 200. Upstream has no bound on connections: ours is far above what the kubelets of 5,000 nodes open.
    fn default() -> Self {
        Self { reads: 400, writes: 200, connections: 20_000 }
    }
}

/// How much of a limit a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The request is never refused.
    Exempt,
    /// The whole limit.
    Heartbeat,
    /// Seven eighths of the limit.
    System,
    /// Three quarters of the limit, and only the user's share when more than half of these are taken.
    Ordinary,
}

impl Standing {
    fn of(user: &UserInfo, info: &RequestInfo) -> Self {
        let lease = info.group == "coordination.k8s.io" && info.resource == "leases";
        let node = info.group.is_empty() && info.resource == "nodes";
        if user.in_group(user::MASTERS) {
            return Self::Exempt;
        }
        match (is_system(user), lease, node) {
            (true, true, _) | (true, _, true) => Self::Heartbeat,
            (true, false, false) | (false, true, _) => Self::System,
            (false, false, _) => Self::Ordinary,
        }
    }

    fn bound(self, limit: usize) -> usize {
        match self {
            Self::Exempt => usize::MAX,
            Self::Heartbeat => limit,
            Self::System => limit - limit / 8,
            Self::Ordinary => limit - limit / 4,
        }
    }
}

/// Whether a user is a part of the control plane, whose names nobody else can have, or is in `system:masters`.
pub(crate) fn is_system(user: &UserInfo) -> bool {
    const USERS: [&str; 4] = [
        "system:kube-scheduler",
        "system:kube-controller-manager",
        "system:cloud-controller-manager",
        "system:apiserver",
    ];
    const GROUPS: [&str; 3] = ["system:nodes", "system:serviceaccounts:kube-system", user::MASTERS];
    USERS.contains(&user.name.as_str()) || GROUPS.iter().any(|group| user.in_group(group))
}

/// A body of few bytes costs more than they do.
const BODY_LEAST: usize = 16 << 10;
/// However few requests there may be at once, there is room for so many bodies of full length.
const BODIES_LEAST: usize = 16;

/// What three quarters of a bound are, rounded up.
fn most_of(bound: usize) -> usize {
    bound - bound / 4
}

/// The requests of one limit, or the bytes of bodies.
#[derive(Debug, Default)]
struct Class {
    held: usize,
    /// How much of that each ordinary user holds.
    users: BTreeMap<Str, usize>,
    /// Users whose request was refused, and until when they count as wanting a share.
    refused: BTreeMap<Str, Instant>,
}

impl Class {
    /// Whether so much more may be taken; it is counted then.
    fn enter(&mut self, limit: usize, standing: Standing, user: &Str, weight: usize, now: Instant) -> bool {
        let bound = if limit == 0 { usize::MAX } else { standing.bound(limit) };
        let mut free = self.held.saturating_add(weight) <= bound;
        if free && standing == Standing::Ordinary {
            let holds = self.users.get(user).copied().unwrap_or(0);
            let mut share = if seeded_bug!("one_user_takes_the_limit") { bound } else { most_of(bound) };
            if self.held >= bound / 2 {
                self.refused.retain(|_, until| *until > now);
                let refused = self.refused.keys().filter(|name| !self.users.contains_key(*name)).count();
                let known = holds > 0 || self.refused.contains_key(user);
                let wanting = self.users.len() + refused + usize::from(!known);
                share = share.min(bound / wanting.max(1));
            }
            // Who holds nothing gets its first, however small the shares are.
            free = holds == 0 || holds.saturating_add(weight) <= share;
        }
        if !free && !seeded_bug!("limit_counts_nothing") {
            self.refused.retain(|_, until| *until > now);
            if standing == Standing::Ordinary && self.refused.len() < REMEMBERED {
                self.refused.insert(user.clone(), now + WAITS);
            }
            return false;
        }
        self.held = self.held.saturating_add(weight);
        if standing == Standing::Ordinary {
            let holds = self.users.entry(user.clone()).or_default();
            *holds = holds.saturating_add(weight);
        }
        true
    }

    fn leave(&mut self, standing: Standing, user: &Str, weight: usize) {
        self.held = self.held.saturating_sub(weight);
        if standing == Standing::Ordinary
            && let Some(holds) = self.users.get_mut(user)
        {
            *holds = holds.saturating_sub(weight);
            if *holds == 0 {
                self.users.remove(user);
            }
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    request_kind: &'static str,
}

static CURRENT: LazyLock<Family<Labels, Gauge>> = LazyLock::new(|| {
    let current: Family<Labels, Gauge> = Family::default();
    oarlock_telemetry::registry().declare(|registry| {
        let help = "Requests under way that count against a limit, by kind";
        registry.register("apiserver_current_inflight_requests", help, current.clone());
    });
    current
});

static BODIES: LazyLock<Gauge> = LazyLock::new(|| {
    let bytes = Gauge::default();
    oarlock_telemetry::registry().declare(|registry| {
        let help = "Bytes that are set aside for request bodies that clients are still sending";
        registry.register("oarlock_apiserver_request_bodies_bytes", help, bytes.clone());
    });
    bytes
});

/// What is counted together.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Reads,
    Writes,
    Bodies,
}

/// The requests under way of one server.
#[derive(Debug)]
pub(crate) struct Inflight {
    limits: Limits,
    reads: Arc<Mutex<Class>>,
    writes: Arc<Mutex<Class>>,
    bodies: Arc<Mutex<Class>>,
}

/// A request under way, or the body of one, until it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    class: Arc<Mutex<Class>>,
    kind: Kind,
    standing: Standing,
    user: Str,
    weight: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let held = {
            let mut class = self.class.lock();
            class.leave(self.standing, &self.user, self.weight);
            class.held
        };
        show(self.kind, held);
    }
}

fn show(kind: Kind, held: usize) {
    let held = i64::try_from(held).unwrap_or(i64::MAX);
    match kind {
        Kind::Reads => CURRENT.get_or_create(&Labels { request_kind: "readOnly" }).set(held),
        Kind::Writes => CURRENT.get_or_create(&Labels { request_kind: "mutating" }).set(held),
        Kind::Bodies => BODIES.set(held),
    };
}

/// The limit has no place for the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

impl Inflight {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, reads: Arc::default(), writes: Arc::default(), bodies: Arc::default() }
    }

    /// Counts a request. The caller must not count requests that are long-running by nature.
    pub(crate) fn enter(&self, user: &UserInfo, info: &RequestInfo) -> Result<Seat, Full> {
        // For paths that are no resource the verb is the HTTP method. Upstream counts every verb but get, list and watch as changing.
        let reads = matches!(info.verb, "get" | "list" | "watch");
        let (class, limit, kind) = match reads {
            true => (&self.reads, self.limits.reads, Kind::Reads),
            false => (&self.writes, self.limits.writes, Kind::Writes),
        };
        seat(class, kind, limit, Standing::of(user, info), Str::new(&user.name), 1)
    }

    /// Counts a body that is about to be read, of so many bytes at most. As many bodies of full length (`max`) fit as requests may be under way
    /// that change something: memory has the bound that it would have if each body were read under its request's seat.
    pub(crate) fn body(&self, user: &UserInfo, info: &RequestInfo, length: usize, max: usize) -> Result<Seat, Full> {
        let limit = match self.limits.writes {
            0 => 0,
            writes => writes.max(BODIES_LEAST).saturating_mul(max.max(BODY_LEAST)),
        };
        let weight = length.min(max).max(BODY_LEAST);
        seat(&self.bodies, Kind::Bodies, limit, Standing::of(user, info), Str::new(&user.name), weight)
    }
}

fn seat(
    class: &Arc<Mutex<Class>>,
    kind: Kind,
    limit: usize,
    standing: Standing,
    user: Str,
    weight: usize,
) -> Result<Seat, Full> {
    let held = {
        let mut class = class.lock();
        if !class.enter(limit, standing, &user, weight, clock::now()) {
            return Err(Full);
        }
        class.held
    };
    show(kind, held);
    Ok(Seat { class: Arc::clone(class), kind, standing, user, weight })
}

/// The answer to a request beyond the limit, in upstream's words.
pub(crate) fn refusal() -> Response<Body> {
    let mut response = Response::new(full("Too many requests, please try again later.\n"));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, groups: &[&str]) -> UserInfo {
        UserInfo::new(name, groups.iter().copied())
    }

    fn about(verb: &'static str, group: &str, resource: &str) -> RequestInfo {
        let (group, resource) = (Str::new(group), Str::new(resource));
        RequestInfo { resource_request: true, verb, group, resource, ..RequestInfo::default() }
    }

    fn inflight(reads: usize, writes: usize) -> Inflight {
        Inflight::new(Limits { reads, writes, ..Limits::default() })
    }

    /// Starts as many requests as the limit allows beside those in flight.
    fn more(inflight: &Inflight, user: &UserInfo, info: &RequestInfo) -> Vec<Seat> {
        std::iter::from_fn(|| inflight.enter(user, info).ok()).take(1000).collect()
    }

    #[test]
    fn ordinary_users_leave_room_for_the_system_and_that_for_heartbeats() {
        let inflight = inflight(400, 200);
        let (pods, leases) = (about("create", "", "pods"), about("update", "coordination.k8s.io", "leases"));
        let nodes = about("patch", "", "nodes");
        let (somebody, node) = (user("somebody", &[]), user("system:node:n", &["system:nodes"]));
        let mut held = more(&inflight, &somebody, &pods);
        held.extend(more(&inflight, &user("another", &[]), &pods));
        held.extend(more(&inflight, &user("third", &[]), &pods));
        assert_eq!(held.len(), 150);
        let led = more(&inflight, &somebody, &leases);
        assert_eq!(led.len(), 25, "Leases go further");
        assert!(more(&inflight, &node, &pods).is_empty());
        let beats = more(&inflight, &node, &leases);
        assert_eq!(beats.len(), 25, "heartbeats go to the end");
        assert!(inflight.enter(&node, &nodes).is_err());
        let masters = user("root", &["system:masters"]);
        assert_eq!(more(&inflight, &masters, &pods).len(), 1000, "and these past it");
        drop(held);
        assert!(inflight.enter(&somebody, &pods).is_ok());
    }

    #[test]
    fn reading_and_changing_are_counted_apart_and_zero_is_no_limit() {
        let inflight = inflight(8, 0);
        let somebody = user("somebody", &[]);
        let lists = more(&inflight, &somebody, &about("list", "", "pods"));
        assert_eq!(lists.len(), 5);
        assert_eq!(more(&inflight, &somebody, &about("create", "", "pods")).len(), 1000);
    }

    #[test]
    fn who_holds_much_gets_no_more_while_another_waits() {
        let (mut class, now) = (Class::default(), clock::now());
        let (greedy, modest) = (Str::new("greedy"), Str::new("modest"));
        let enters = |class: &mut Class, user: &Str, now| class.enter(400, Standing::Ordinary, user, 1, now);
        let held = (0..400).filter(|_| enters(&mut class, &greedy, now)).count();
        assert_eq!(held, 225, "alone it leaves room for the next one");
        assert_eq!((0..400).filter(|_| enters(&mut class, &modest, now)).count(), 75, "which gets in without waiting");
        class.leave(Standing::Ordinary, &greedy, 1);
        assert!(!enters(&mut class, &greedy, now), "what comes free is for who has less");
        assert!(enters(&mut class, &modest, now));
        for _ in 0..75 {
            class.leave(Standing::Ordinary, &modest, 1);
        }
        for _ in 0..85 {
            class.leave(Standing::Ordinary, &greedy, 1);
        }
        assert_eq!(class.users.get(&greedy), Some(&139));
        assert_eq!((0..400).filter(|_| enters(&mut class, &greedy, now)).count(), 11, "up to its half");
        let later = now + 2 * WAITS;
        class.leave(Standing::Ordinary, &modest, 1);
        assert_eq!((0..400).filter(|_| enters(&mut class, &greedy, later)).count(), 75, "nobody waits any more");
    }

    #[test]
    fn users_that_are_refused_cost_no_memory_without_bound() {
        let (mut class, now) = (Class::default(), clock::now());
        class.held = 300;
        for n in 0..10_000 {
            assert!(!class.enter(400, Standing::Ordinary, &Str::new(format!("user-{n}")), 1, now));
        }
        assert_eq!((class.refused.len(), class.users.len()), (REMEMBERED, 0));
    }

    #[test]
    fn bodies_are_counted_by_their_bytes_and_no_user_takes_all_the_room() {
        const MAX: usize = 3 << 20;
        let inflight = inflight(400, 200);
        let pods = about("create", "", "pods");
        let (somebody, another, node) = (user("a", &[]), user("b", &[]), user("system:node:n", &["system:nodes"]));
        let bodies = |user: &UserInfo, length| -> Vec<Seat> {
            std::iter::from_fn(|| inflight.body(user, &pods, length, MAX).ok()).take(1000).collect()
        };
        let short = bodies(&somebody, 100);
        assert_eq!(short.len(), 1000, "short bodies hold next to nothing");
        assert!(inflight.enter(&somebody, &pods).is_ok(), "and no seat");
        drop(short);
        // 200 of them in all, 150 for ordinary users, 112 and a half for one; a body of unknown length may become any length.
        let long = [bodies(&somebody, usize::MAX), bodies(&another, MAX), bodies(&node, MAX)];
        assert_eq!(long.each_ref().map(Vec::len), [112, 38, 25]);
        drop(long);
        assert_eq!(inflight.bodies.lock().held, 0);
    }

    #[test]
    fn however_few_requests_there_may_be_a_body_of_full_length_can_be_read() {
        const MAX: usize = 3 << 20;
        let pods = about("create", "", "pods");
        assert!(inflight(1, 1).body(&user("a", &[]), &pods, MAX, MAX).is_ok());
    }
}

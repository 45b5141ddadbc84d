//! Limits on the number of concurrent requests, and on the share of each user.
//!
//! There are upstream's two limits (`WithMaxInFlightLimit`): one for reading requests, one for mutating requests. A request beyond its limit is
//! answered at once with 429, `Retry-After: 1` and upstream's text. `system:masters` always pass, and long-running requests (watch, log, exec,
//! attach, portforward, proxy) are not counted among them. Probes pass too (upstream: flow schema `probes`).
//!
//! Upstream's priority and fairness keeps one client from starving all others. Until Oarlock has it, three rules stand in for it:
//!
//! * Ordinary users may take three quarters of each limit. System users (nodes, scheduler, controllers, accounts of `kube-system`), and every user's
//!   requests for Leases, may take half of the last quarter. The other half is reserved for the heartbeats of system users: their Leases, and Nodes
//!   with their status. One node may hold a quarter of a limit, and one ordinary user's requests for Leases a sixteenth: a stolen credential of a
//!   kubelet, or the right to some Lease, must not be enough to keep all others out.
//! * When more than half of the ordinary users' part is in use, an ordinary user who already holds a fair share may begin no further request. The
//!   share is the part, divided by the number of ordinary users that hold a request or were refused within the last two seconds. A user who is alone
//!   may hold three quarters of the part, so that the next user finds a free seat at once.
//! * A request holds its seat while the server works: from the moment its body has arrived until the head of the answer is ready, not while the
//!   client sends or reads.
//!
//! Request bodies that are still arriving are counted by their bytes, under the same three rules ([`Inflight::body`]), since they occupy only memory.
//! So are answers that their clients have not read yet, large ones ([`Inflight::answer`]) and small ones ([`Inflight::small_answer`]). Streams of users (logs,
//! exec, attach, port-forward, proxies) have an account of their own under these rules ([`Inflight::stream`]).
//!
//! A request counts against the user who has authenticated, not against a user whose name it takes by impersonation ([`counted_user`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use foldhash::quality::RandomState;
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

/// How long a refused user counts as waiting for a share: clients retry after `Retry-After`, one second.
const REFUSED_USER_TTL: Duration = Duration::from_secs(2);
/// Maximum number of refused users that are remembered.
const MAX_REFUSED_USERS: usize = 256;

/// Limits of a server on concurrent requests and connections. Zero means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of concurrent reading requests.
    pub reads: usize,
    /// Maximum number of concurrent mutating requests.
    pub writes: usize,
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum number of concurrent streams of users: logs, exec, attach, port-forward and proxies.
    pub streams: usize,
}

impl Default for Limits {
    /// Upstream's 400 and 200. Upstream bounds neither connections nor streams: our bound of connections is far above what the kubelets of 5,000 nodes open, and
    /// streams, of which each is a connection more, may take half as many.
    fn default() -> Self {
        Self { reads: 400, writes: 200, connections: 20_000, streams: 10_000 }
    }
}

/// The part of a limit that a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowance {
    /// The request is never refused.
    Exempt,
    /// The whole limit.
    Heartbeat,
    /// The whole limit, of which one node may hold a part.
    NodeHeartbeat,
    /// Seven eighths of the limit.
    System,
    /// Seven eighths of the limit, of which one node may hold a part.
    Node,
    /// Seven eighths of the limit, of which one user may hold a small part.
    Lease,
    /// Three quarters of the limit; only the user's share once more than half of these are in use.
    Ordinary,
}

/// The requests of one user that have a bound of their own together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Capped {
    Node,
    Leases,
}

impl Allowance {
    fn of(user: &UserInfo, info: &RequestInfo) -> Self {
        let lease = info.group == "coordination.k8s.io" && info.resource == "leases";
        let node = info.group.is_empty() && info.resource == "nodes";
        if user.in_group(user::MASTERS) {
            return Self::Exempt;
        }
        match (is_system(user), user.in_group(user::NODES), lease || node) {
            (true, _, true) => Self::Heartbeat,
            (true, _, false) => Self::System,
            (false, true, true) => Self::NodeHeartbeat,
            (false, true, false) => Self::Node,
            (false, false, _) if lease => Self::Lease,
            (false, false, _) => Self::Ordinary,
        }
    }

    fn bound(self, limit: usize) -> usize {
        match self {
            Self::Exempt => usize::MAX,
            Self::Heartbeat | Self::NodeHeartbeat => limit,
            Self::System | Self::Node | Self::Lease => limit - limit / 8,
            Self::Ordinary => limit - limit / 4,
        }
    }

    /// Returns the bound on what one user may hold of the limit, and the requests that count against it.
    fn cap(self, limit: usize) -> Option<(Capped, usize)> {
        match self {
            Self::Node | Self::NodeHeartbeat => Some((Capped::Node, limit / 4)),
            Self::Lease => Some((Capped::Leases, limit / 16)),
            Self::Exempt | Self::Heartbeat | Self::System | Self::Ordinary => None,
        }
    }
}

/// Whether a user is a component of the control plane, whose name no other user can have, or is in `system:masters`. Nodes are not: their credentials
/// lie on machines that run anybody's pods.
pub(crate) fn is_system(user: &UserInfo) -> bool {
    const USERS: [&str; 4] = [
        "system:kube-scheduler",
        "system:kube-controller-manager",
        "system:cloud-controller-manager",
        "system:apiserver",
    ];
    const GROUPS: [&str; 2] = ["system:serviceaccounts:kube-system", user::MASTERS];
    USERS.contains(&user.name.as_str()) || GROUPS.iter().any(|group| user.in_group(group))
}

/// Minimum number of bytes that a body counts for: a tiny body costs more memory than its bytes.
const MIN_BODY_BYTES: usize = 16 << 10;
/// Number of bodies of full length that fit in any case, however low the limit on requests.
const MIN_FULL_BODIES: usize = 16;

/// Number of bytes of unread answers for each reading request that may be in flight.
const ANSWER_BYTES_PER_READ: usize = 1 << 20;
/// The part of all unread answers that the longest one counts for at most: however long the list of a large cluster is, some can be sent at a time.
const MAX_ANSWER_PART: usize = 16;

/// Number of bytes of small unread answers for each reading request that may be in flight.
const SMALL_ANSWER_BYTES_PER_READ: usize = 256 << 10;
/// Minimum number of bytes that a small answer counts for: a stream costs memory beside its bytes.
const MIN_ANSWER_BYTES: usize = 4 << 10;

/// Returns the user against whose share a request counts. `user` is whom `authenticated` impersonates, or the same user.
///
/// A client that may impersonate users could make up a name for each request, and have a share with each. So its requests count against its own share,
/// with two exceptions: requests as a member of `system:masters` always pass, whoever makes them, and a system user has no share of its own that could
/// be exceeded, so its requests count as those of the users that it acts for.
pub(crate) fn counted_user(authenticated: Arc<UserInfo>, user: &Arc<UserInfo>) -> Arc<UserInfo> {
    let as_impersonated = user.in_group(user::MASTERS) || is_system(&authenticated);
    if as_impersonated || seeded_bug!("impersonated_names_have_shares") { Arc::clone(user) } else { authenticated }
}

/// Returns three quarters of a bound, rounded up.
fn three_quarters(bound: usize) -> usize {
    bound - bound / 4
}

/// Usage of one limit: a number of requests, or the bytes of bodies.
#[derive(Debug, Default)]
struct Usage {
    held: usize,
    /// Usage by each ordinary user. Unlike a tree the map keeps its memory when nobody holds anything.
    users: HashMap<Str, usize, RandomState>,
    /// Usage by each user whose requests have a bound of their own.
    capped: BTreeMap<(Capped, Str), usize>,
    /// Users whose request was refused, with the time until which they count as waiting for a share.
    refused: BTreeMap<Str, Instant>,
}

impl Usage {
    /// Adds `weight` to the usage if the rules allow it, and returns whether they do. The clock is read only when seats are scarce.
    fn enter(
        &mut self,
        limit: usize,
        allowance: Allowance,
        user: &Str,
        weight: usize,
        now: impl Fn() -> Instant,
    ) -> bool {
        let bound = if limit == 0 { usize::MAX } else { allowance.bound(limit) };
        let mut free = self.held.saturating_add(weight) <= bound;
        let cap = allowance.cap(limit).filter(|_| limit > 0 && !seeded_bug!("one_node_takes_the_limit"));
        if let Some((what, most)) = cap {
            let holds = self.capped.get(&(what, user.clone())).copied().unwrap_or(0);
            free &= holds == 0 || holds.saturating_add(weight) <= most;
        }
        if free && allowance == Allowance::Ordinary {
            let holds = self.users.get(user).copied().unwrap_or(0);
            let mut share = if seeded_bug!("one_user_takes_the_limit") { bound } else { three_quarters(bound) };
            if self.held >= bound / 2 {
                self.forget_refused(now());
                let refused = self.refused.keys().filter(|name| !self.users.contains_key(*name)).count();
                let known = holds > 0 || self.refused.contains_key(user);
                let wanting = self.users.len() + refused + usize::from(!known);
                share = share.min(bound / wanting.max(1));
            }
            // A user without any usage gets a first seat, however small the shares are.
            free = holds == 0 || holds.saturating_add(weight) <= share;
        }
        if !free && !seeded_bug!("limit_counts_nothing") {
            let now = now();
            self.forget_refused(now);
            if allowance == Allowance::Ordinary && self.refused.len() < MAX_REFUSED_USERS {
                self.refused.insert(user.clone(), now + REFUSED_USER_TTL);
            }
            return false;
        }
        self.held = self.held.saturating_add(weight);
        if allowance == Allowance::Ordinary {
            let holds = self.users.entry(user.clone()).or_default();
            *holds = holds.saturating_add(weight);
        }
        if let Some((what, _)) = allowance.cap(limit) {
            let holds = self.capped.entry((what, user.clone())).or_default();
            *holds = holds.saturating_add(weight);
        }
        true
    }

    /// Forgets the users that no longer count as waiting for a share.
    fn forget_refused(&mut self, now: Instant) {
        self.refused.retain(|_, until| *until > now);
    }

    fn leave(&mut self, allowance: Allowance, user: &Str, weight: usize) {
        self.held = self.held.saturating_sub(weight);
        if allowance == Allowance::Ordinary
            && let Some(holds) = self.users.get_mut(user)
        {
            *holds = holds.saturating_sub(weight);
            if *holds == 0 {
                self.users.remove(user);
            }
        }
        if let Some((what, _)) = allowance.cap(0) {
            let key = (what, user.clone());
            if let Some(holds) = self.capped.get_mut(&key) {
                *holds = holds.saturating_sub(weight);
                if *holds == 0 {
                    self.capped.remove(&key);
                }
            }
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    request_kind: &'static str,
}

/// Gauges of the reading and of the mutating requests. They are looked up once, not with every request.
static CURRENT: LazyLock<(Gauge, Gauge)> = LazyLock::new(|| {
    let current: Family<Labels, Gauge> = Family::default();
    oarlock_telemetry::registry().declare(|registry| {
        let help = "Requests under way that count against a limit, by kind";
        registry.register("apiserver_current_inflight_requests", help, current.clone());
    });
    let of = |request_kind| current.get_or_create_owned(&Labels { request_kind });
    (of("readOnly"), of("mutating"))
});

static ANSWERS: LazyLock<Gauge> = LazyLock::new(|| {
    gauge("oarlock_apiserver_unread_answers_bytes", "Bytes of large answers that clients have not read yet")
});

static SMALL_ANSWERS: LazyLock<Gauge> = LazyLock::new(|| {
    let help = "Bytes that small answers count for that clients have not read yet";
    gauge("oarlock_apiserver_unread_small_answers_bytes", help)
});

static STREAMS: LazyLock<Gauge> = LazyLock::new(|| {
    let help = "Logs, exec, attach, port-forward and proxies under way";
    gauge("oarlock_apiserver_streams", help)
});

static BODIES: LazyLock<Gauge> = LazyLock::new(|| {
    let help = "Bytes that are set aside for request bodies that clients are still sending";
    gauge("oarlock_apiserver_request_bodies_bytes", help)
});

/// Registers a gauge of the process.
fn gauge(name: &'static str, help: &'static str) -> Gauge {
    let gauge = Gauge::default();
    oarlock_telemetry::registry().declare(|registry| registry.register(name, help, gauge.clone()));
    gauge
}

/// The usages that are counted separately.
#[derive(Clone, Copy, Debug)]
enum UsageKind {
    Reads,
    Writes,
    Bodies,
    Answers,
    SmallAnswers,
    Streams,
}

/// Counters of the requests in flight at one server.
#[derive(Debug)]
pub(crate) struct Inflight {
    limits: Limits,
    reads: Arc<Mutex<Usage>>,
    writes: Arc<Mutex<Usage>>,
    bodies: Arc<Mutex<Usage>>,
    answers: Arc<Mutex<Usage>>,
    small_answers: Arc<Mutex<Usage>>,
    streams: Arc<Mutex<Usage>>,
}

/// A seat of a request in flight, of the body of one, of an answer, or of a stream, released when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    usage: Arc<Mutex<Usage>>,
    kind: UsageKind,
    allowance: Allowance,
    user: Str,
    weight: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let held = {
            let mut usage = self.usage.lock();
            usage.leave(self.allowance, &self.user, self.weight);
            usage.held
        };
        publish(self.kind, held);
    }
}

fn publish(kind: UsageKind, held: usize) {
    let held = i64::try_from(held).unwrap_or(i64::MAX);
    match kind {
        UsageKind::Reads => CURRENT.0.set(held),
        UsageKind::Writes => CURRENT.1.set(held),
        UsageKind::Bodies => BODIES.set(held),
        UsageKind::Answers => ANSWERS.set(held),
        UsageKind::SmallAnswers => SMALL_ANSWERS.set(held),
        UsageKind::Streams => STREAMS.set(held),
    };
}

/// Error: the limit has no free seat for the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitReached;

impl Inflight {
    pub(crate) fn new(limits: Limits) -> Self {
        let (reads, writes, bodies) = (Arc::default(), Arc::default(), Arc::default());
        let (answers, small_answers, streams) = Default::default();
        Self { limits, reads, writes, bodies, answers, small_answers, streams }
    }

    /// Takes a seat for a request. The caller must not ask for one for long-running requests.
    pub(crate) fn enter(&self, user: &UserInfo, info: &RequestInfo) -> Result<Seat, LimitReached> {
        // For paths that are not resources the verb is the HTTP method. Upstream counts every verb but get, list and watch as mutating.
        let reads = matches!(info.verb, "get" | "list" | "watch");
        let (usage, limit, kind) = match reads {
            true => (&self.reads, self.limits.reads, UsageKind::Reads),
            false => (&self.writes, self.limits.writes, UsageKind::Writes),
        };
        seat(usage, kind, limit, Allowance::of(user, info), Str::new(&user.name), 1)
    }

    /// Takes room for a body of at most `length` bytes that is about to be read. The bound is as many bodies of full length (`max`) as mutating
    /// requests may be in flight, the memory that they would need if each body were read while its request held a seat.
    pub(crate) fn body(
        &self,
        user: &UserInfo,
        info: &RequestInfo,
        length: usize,
        max: usize,
    ) -> Result<Seat, LimitReached> {
        let limit = match self.limits.writes {
            0 => 0,
            writes => writes.max(MIN_FULL_BODIES).saturating_mul(max.max(MIN_BODY_BYTES)),
        };
        let weight = length.min(max).max(MIN_BODY_BYTES);
        seat(&self.bodies, UsageKind::Bodies, limit, Allowance::of(user, info), Str::new(&user.name), weight)
    }
}

impl Inflight {
    /// Takes room for an answer of `length` bytes until the client has read it.
    pub(crate) fn answer(&self, user: &UserInfo, info: &RequestInfo, length: usize) -> Result<Seat, LimitReached> {
        let limit = self.answer_limit(ANSWER_BYTES_PER_READ);
        let weight = if limit == 0 { length } else { length.min(limit / MAX_ANSWER_PART) };
        seat(&self.answers, UsageKind::Answers, limit, Allowance::of(user, info), Str::new(&user.name), weight)
    }

    /// Takes room for a small answer of `length` bytes until the client has read it. Small answers have an account of their own: long lists that nobody
    /// reads must not keep other users from short answers.
    pub(crate) fn small_answer(
        &self,
        user: &UserInfo,
        info: &RequestInfo,
        length: usize,
    ) -> Result<Seat, LimitReached> {
        let limit =
            if seeded_bug!("small_answers_are_free") { 0 } else { self.answer_limit(SMALL_ANSWER_BYTES_PER_READ) };
        let (allowance, weight) = (Allowance::of(user, info), length.max(MIN_ANSWER_BYTES));
        seat(&self.small_answers, UsageKind::SmallAnswers, limit, allowance, Str::new(&user.name), weight)
    }

    /// Takes a seat for a stream: a log, exec, attach, port-forward or proxy. The seat lasts as long as the connection to the node or pod.
    pub(crate) fn stream(&self, user: &UserInfo, info: &RequestInfo) -> Result<Seat, LimitReached> {
        let allowance = Allowance::of(user, info);
        seat(&self.streams, UsageKind::Streams, self.limits.streams, allowance, Str::new(&user.name), 1)
    }

    fn answer_limit(&self, per_read: usize) -> usize {
        match self.limits.reads {
            0 => 0,
            reads => reads.max(MAX_ANSWER_PART).saturating_mul(per_read),
        }
    }
}

fn seat(
    usage: &Arc<Mutex<Usage>>,
    kind: UsageKind,
    limit: usize,
    allowance: Allowance,
    user: Str,
    weight: usize,
) -> Result<Seat, LimitReached> {
    let held = {
        let mut usage = usage.lock();
        if !usage.enter(limit, allowance, &user, weight, clock::now) {
            return Err(LimitReached);
        }
        usage.held
    };
    publish(kind, held);
    Ok(Seat { usage: Arc::clone(usage), kind, allowance, user, weight })
}

/// Returns the 429 answer to a request beyond the limit, with upstream's text.
pub(crate) fn refusal() -> Response<Body> {
    let mut response = Response::new(full("Too many requests, please try again later.\n"));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Returns the 429 answer to a request whose answer finds no room, however short it is. An answer without a body needs none: a client that opens no
/// window gets it all the same.
pub(crate) fn bare_refusal() -> Response<Body> {
    let mut response = refusal();
    response.headers_mut().remove(header::CONTENT_TYPE);
    response.map(|_| full(Bytes::new()))
}

#[cfg(test)]
mod tests;

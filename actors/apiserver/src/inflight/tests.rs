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
    let led: Vec<Seat> = ["somebody", "another", "third"]
        .map(|name| more(&inflight, &user(name, &[]), &leases))
        .into_iter()
        .flatten()
        .collect();
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
fn one_node_keeps_nobody_out_and_nor_does_a_right_to_leases() {
    let inflight = inflight(400, 200);
    let (pods, leases, nodes) =
        (about("create", "", "pods"), about("update", "coordination.k8s.io", "leases"), about("patch", "", "nodes"));
    let stolen = user("system:node:stolen", &["system:nodes"]);
    let mut held = more(&inflight, &stolen, &pods);
    assert_eq!(held.len(), 50);
    assert!(more(&inflight, &stolen, &nodes).is_empty() && more(&inflight, &stolen, &leases).is_empty());
    held.extend(more(&inflight, &user("electing", &[]), &leases));
    assert_eq!(held.len(), 62);
    assert!(inflight.enter(&user("system:node:other", &["system:nodes"]), &nodes).is_ok());
    assert!(inflight.enter(&user("modest", &[]), &pods).is_ok());
    drop(held);
    let usage = inflight.writes.lock();
    assert!(usage.capped.is_empty() && usage.held == 0, "{usage:?}");
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
    let (mut usage, now) = (Usage::default(), clock::now());
    let (greedy, modest) = (Str::new("greedy"), Str::new("modest"));
    let enters = |usage: &mut Usage, user: &Str, now| usage.enter(400, Allowance::Ordinary, user, 1, || now);
    let held = (0..400).filter(|_| enters(&mut usage, &greedy, now)).count();
    assert_eq!(held, 225, "alone it leaves room for the next one");
    assert_eq!((0..400).filter(|_| enters(&mut usage, &modest, now)).count(), 75, "which gets in without waiting");
    usage.leave(Allowance::Ordinary, &greedy, 1);
    assert!(!enters(&mut usage, &greedy, now), "what comes free is for who has less");
    assert!(enters(&mut usage, &modest, now));
    for _ in 0..75 {
        usage.leave(Allowance::Ordinary, &modest, 1);
    }
    for _ in 0..85 {
        usage.leave(Allowance::Ordinary, &greedy, 1);
    }
    assert_eq!(usage.users.get(&greedy), Some(&139));
    assert_eq!((0..400).filter(|_| enters(&mut usage, &greedy, now)).count(), 11, "up to its half");
    let later = now + 2 * REFUSED_USER_TTL;
    usage.leave(Allowance::Ordinary, &modest, 1);
    assert_eq!((0..400).filter(|_| enters(&mut usage, &greedy, later)).count(), 75, "nobody waits any more");
}

#[test]
fn users_that_are_refused_cost_no_memory_without_bound() {
    let (mut usage, now) = (Usage::default(), clock::now());
    usage.held = 300;
    for n in 0..10_000 {
        assert!(!usage.enter(400, Allowance::Ordinary, &Str::new(format!("user-{n}")), 1, || now));
    }
    assert_eq!((usage.refused.len(), usage.users.len()), (MAX_REFUSED_USERS, 0));
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

#[test]
fn small_answers_have_room_of_their_own_and_a_tiny_one_is_counted_with_its_stream() {
    let inflight = inflight(16, 16);
    let (somebody, another, pods) = (user("a", &[]), user("b", &[]), about("get", "", "pods"));
    let small = |user: &UserInfo, length| -> Vec<Seat> {
        std::iter::from_fn(|| inflight.small_answer(user, &pods, length).ok()).take(10_000).collect()
    };
    // Of 4 MiB, three quarters are for ordinary users, and three quarters of these for one.
    let held = small(&somebody, 1);
    assert_eq!(held.len(), 9 << 20 >> 14);
    assert_eq!(small(&another, 16 << 10).len(), 3 << 20 >> 16, "the next user finds room");
    assert!(inflight.answer(&somebody, &pods, 1 << 20).is_ok(), "long answers are counted apart");
    assert_eq!(small(&user("root", &["system:masters"]), 1).len(), 10_000);
}

#[test]
fn a_client_that_makes_up_names_has_one_share() {
    let somebody = Arc::new(user("somebody", &[]));
    let counted = |real: &Arc<UserInfo>, user| counted_user(Arc::clone(real), &Arc::new(user)).name.clone();
    assert_eq!(counted(&somebody, user("made-up", &[])), "somebody");
    assert_eq!(counted(&somebody, user("system:kube-scheduler", &[])), "somebody");
    assert_eq!(counted(&somebody, user("system:node:made-up", &["system:nodes"])), "somebody");
    assert_eq!(counted(&somebody, user("root", &["system:masters"])), "root");
    let system = Arc::new(user("gateway", &["system:serviceaccounts:kube-system"]));
    assert_eq!(counted(&system, user("whom-it-serves", &[])), "whom-it-serves", "no more than this user could");
}

#[test]
fn streams_are_shared_among_users_and_count_against_nothing_else() {
    let inflight = Inflight::new(Limits { reads: 4, writes: 4, streams: 400, ..Limits::default() });
    let logs = RequestInfo { subresource: Str::new("log"), ..about("get", "", "pods") };
    let streams = |user: &UserInfo| -> Vec<Seat> {
        std::iter::from_fn(|| inflight.stream(user, &logs).ok()).take(1000).collect()
    };
    let (somebody, another) = (user("somebody", &[]), user("another", &[]));
    let held = streams(&somebody);
    assert_eq!(held.len(), 225, "three quarters of the part of ordinary users");
    assert!(!streams(&another).is_empty());
    assert!(!streams(&user("system:kube-scheduler", &[])).is_empty());
    for verb in ["get", "create"] {
        assert!(inflight.enter(&somebody, &about(verb, "", "pods")).is_ok(), "a seat of its own for {verb}");
    }
    drop(held);
    assert_eq!(streams(&somebody).len(), 150, "the half, while another one waits");
    let unlimited = Inflight::new(Limits { streams: 0, ..Limits::default() });
    assert!((0..1000).all(|_| unlimited.stream(&somebody, &logs).is_ok()));
}

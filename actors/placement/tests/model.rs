//! An exhaustive model check of the fencing rules: two coordinators, three processes, one unit whose work is to create one child, and every message
//! that may be delayed. The search takes every possible step from every reachable state.
//!
//! A second child must never be created: child names are generated, so only the claim prevents two owners from both creating one. With the rules of
//! `docs/adr/0005-assignments-and-fences.md` no reachable state has a second child; without any one of the rules the search finds a trace to one.
#![allow(clippy::indexing_slicing, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::collections::HashSet;

const PROCESSES: usize = 3;
const COORDINATORS: usize = 2;
/// The number of moves of the unit: to another process and back.
const MOVES: u8 = 2;

/// The fencing rules, each of which a search can leave out.
#[derive(Clone, Copy)]
struct Rules {
    /// A write is compared with the Assignment in its own commit.
    fence: Fence,
    /// A new holder waits until its cache has reached the epoch.
    catch_up: bool,
    /// A coordinator's write is compared with the Assignment that it has read.
    compare_moves: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Fence {
    None,
    /// Compared with the Assignment in the server's cache, which may be stale.
    Cached,
    Committed,
}

const ALL: Rules = Rules { fence: Fence::Committed, catch_up: true, compare_moves: true };

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Process {
    /// The Assignment in the process's cache: holder and epoch.
    assignment: (u8, u8),
    /// The number of children in the process's other cache, and that cache's revision.
    seen: (u8, u8),
    /// The epoch under which the process works for the unit.
    active: Option<u8>,
    /// The claim of a create request in flight. The process learns the result when the request arrives.
    sent: Option<u8>,
    /// The revision of the process's last write, which the cache must reach before the next decision.
    own: u8,
}

/// One step: the number of the process or coordinator, and what it does.
type Step = (usize, &'static str);
/// A callback for each possible step, with the step's change of the state.
type Take<'a> = dyn FnMut(usize, &'static str, &dyn Fn(&mut State)) + 'a;

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    revision: u8,
    /// The Assignment: holder and epoch.
    unit: (u8, u8),
    children: u8,
    moves: u8,
    /// The epoch in the servers' cache, for `Fence::Cached`.
    served: u8,
    /// Whether a process has restarted; one restart suffices.
    restarted: bool,
    processes: [Process; PROCESSES],
    /// The move requests in flight: the new holder, and the epoch that the coordinator has read.
    orders: [Option<(u8, u8)>; COORDINATORS],
}

impl State {
    fn first() -> Self {
        let assignment = Process { assignment: (0, 1), ..Process::default() };
        Self {
            revision: 1,
            unit: (0, 1),
            children: 0,
            moves: 0,
            served: 1,
            restarted: false,
            processes: [assignment; PROCESSES],
            orders: [None; COORDINATORS],
        }
    }

    /// Returns every state that one step leads to.
    fn next(&self, rules: Rules) -> Vec<(Step, Self)> {
        let mut all = Vec::new();
        let mut step = |who: usize, does: &'static str, change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            change(&mut next);
            if next != *self {
                all.push(((who, does), next));
            }
        };
        if self.served != self.unit.1 && rules.fence == Fence::Cached {
            step(0, "the servers read the Assignment", &|s| s.served = s.unit.1);
        }
        for c in 0..COORDINATORS {
            match self.orders[c] {
                None if self.moves < MOVES => {
                    for to in (0..PROCESSES as u8).filter(|to| *to != self.unit.0) {
                        let order = |s: &mut Self| {
                            s.orders[c] = Some((to, s.unit.1));
                            s.moves += 1;
                        };
                        step(c, "the coordinator orders a move", &order);
                    }
                }
                None => {}
                Some((to, read)) => {
                    step(c, "the coordinator's order is lost", &|s| s.orders[c] = None);
                    let moved = |s: &mut Self| {
                        s.orders[c] = None;
                        if !rules.compare_moves || s.unit.1 == read {
                            s.revision += 1;
                            // Without the comparison two writes made from the same state get the same epoch.
                            s.unit = (to, if rules.compare_moves { s.revision } else { read + 1 });
                        }
                    };
                    step(c, "the coordinator's order is committed", &moved);
                }
            }
        }
        for p in 0..PROCESSES {
            self.of_process(p, rules, &mut step);
        }
        all
    }

    fn of_process(&self, p: usize, rules: Rules, step: &mut Take<'_>) {
        let Process { assignment, seen, active, sent, own } = self.processes[p];
        step(p, "the process hears of the Assignment", &|s| {
            s.processes[p].assignment = s.unit;
            if s.processes[p].active != Some(s.unit.1) || s.unit.0 != p as u8 {
                s.processes[p].active = None;
            }
        });
        step(p, "the process's cache is told everything", &|s| s.processes[p].seen = (s.children, s.revision));
        if active.is_none() && assignment.0 == p as u8 && (!rules.catch_up || seen.1 >= assignment.1) {
            step(p, "the process takes up the unit", &|s| s.processes[p].active = Some(assignment.1));
        }
        if let Some(epoch) = active
            && sent.is_none()
            && seen.0 == 0
            && seen.1 >= own
        {
            step(p, "the process sends a create", &|s| s.processes[p].sent = Some(epoch));
        }
        if let Some(claim) = sent {
            step(p, "the process's create is lost", &|s| s.processes[p].sent = None);
            let current = match rules.fence {
                Fence::None => claim,
                Fence::Cached => self.served,
                Fence::Committed => self.unit.1,
            };
            let arrives = |s: &mut Self| {
                s.processes[p].sent = None;
                if claim == current {
                    s.revision += 1;
                    s.children += 1;
                    s.processes[p].own = s.revision;
                } else {
                    s.processes[p].active = None;
                }
            };
            step(p, "the process's create arrives", &arrives);
        }
        // A restart does not cancel a request in flight; a request without a sender is equivalent to one of another process.
        if sent.is_none() && !self.restarted {
            let anew = |s: &mut Self| {
                s.restarted = true;
                s.processes[p] = Process { assignment: (u8::MAX, 0), ..Process::default() };
            };
            step(p, "the process starts anew", &anew);
        }
    }
}

/// Searches all reachable states; returns their number, or the steps that lead to a second child.
fn search(rules: Rules) -> Result<usize, Vec<Step>> {
    let mut seen = HashSet::from([State::first()]);
    // In the order of discovery, each with the index of its predecessor and the step from there.
    let mut states = vec![(State::first(), 0, (0, ""))];
    let mut at = 0;
    while let Some((state, _, _)) = states.get(at).cloned() {
        if state.children > 1 {
            let mut way = Vec::new();
            while at > 0 {
                way.push(states[at].2);
                at = states[at].1;
            }
            way.reverse();
            return Err(way);
        }
        for (step, next) in state.next(rules) {
            if seen.insert(next.clone()) {
                states.push((next, at, step));
            }
        }
        at += 1;
    }
    Ok(states.len())
}

#[test]
fn with_all_rules_there_is_never_a_second_child() {
    let states = search(ALL).unwrap_or_else(|way| panic!("{way:#?}"));
    assert!(states > 50_000, "only {states} states were looked at");
}

#[track_caller]
fn breaks(rules: Rules) -> Vec<Step> {
    let way = search(rules).expect_err("nothing happens without the rule");
    println!("{way:#?}");
    way
}

#[test]
fn without_the_second_compare_a_late_write_makes_one() {
    let way = breaks(Rules { fence: Fence::None, ..ALL });
    assert!(way.contains(&(0, "the coordinator's order is committed")), "{way:#?}");
}

#[test]
fn a_claim_that_is_compared_with_what_was_read_is_none() {
    breaks(Rules { fence: Fence::Cached, ..ALL });
}

#[test]
fn who_does_not_catch_up_makes_what_was_made_before() {
    breaks(Rules { catch_up: false, ..ALL });
}

#[test]
fn two_coordinators_that_do_not_compare_give_one_epoch_twice() {
    breaks(Rules { compare_moves: false, ..ALL });
}

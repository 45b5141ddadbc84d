//! Plans which units move to which members, from the members' states and the present holders, without clocks or I/O.

use std::collections::BTreeMap;

use oarlock_mesh::Unit;
use oarlock_schema::Str;
use oarlock_seeded_bug::seeded_bug;

/// The most units that one plan moves for balance alone: each makes its new holder reconcile all keys of the unit.
const MAX_BALANCE_MOVES: usize = 4;

/// The state of a member, as judged by this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The Lease is valid and the member is not silent.
    Working,
    /// The member is shutting down: its units move away, and it gets none.
    Leaving,
    /// The Lease is valid, but the member is silent on the bus: its units move away, except units that are settling or have outside effects, and it
    /// gets none.
    Silent,
    /// The Lease was not renewed in time.
    Expired,
}

/// The present holder of a unit, and what restricts a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The member.
    pub(crate) holder: Str,
    /// Whether the unit was assigned to the holder only recently, so that it does not move for balance or silence alone.
    pub(crate) settling: bool,
    /// Whether work for the unit has effects outside of the API, where no epoch is compared: only an orderly shutdown or an expired Lease moves the unit.
    pub(crate) outside: bool,
    /// Whether the Assignment is newer than the cached Leases, so that its holder may have renewed a Lease that looks expired.
    pub(crate) unseen: bool,
}

/// Returns the moves to make, each unit with its new holder. Units without a working holder go to the members with the fewest units; then loads
/// are balanced until they differ by one unit at most. A unit leaves a working member only for balance, and never if the unit has outside effects.
/// Empty while no member is working.
pub(crate) fn plan(units: &[Unit], members: &BTreeMap<Str, State>, held: &BTreeMap<Unit, Held>) -> BTreeMap<Unit, Str> {
    let working = || members.iter().filter(|(_, state)| **state == State::Working).map(|(name, _)| name);
    let mut loads: BTreeMap<&Str, usize> = working().map(|name| (name, 0)).collect();
    let mut moves = BTreeMap::new();
    let mut unassigned = Vec::new();
    for unit in units {
        match held.get(unit) {
            Some(held) if may_wait(members, held) => {}
            held => match held.and_then(|held| loads.get_mut(&held.holder)) {
                Some(load) => *load += 1,
                None => unassigned.push(unit),
            },
        }
    }
    for unit in unassigned {
        let Some((to, load)) = loads.iter_mut().min_by_key(|(name, load)| (**load, **name)) else { return moves };
        *load += 1;
        moves.insert(unit.clone(), (*to).clone());
    }
    for _ in 0..MAX_BALANCE_MOVES {
        let most = loads.iter().max_by_key(|(name, load)| (**load, **name)).map(|(name, load)| (*name, *load));
        let least = loads.iter().min_by_key(|(name, load)| (**load, **name)).map(|(name, load)| (*name, *load));
        let (Some((from, most)), Some((to, least))) = (most, least) else { break };
        let movable = |unit: &&Unit| {
            let stays = |held: &Held| held.settling || held.outside;
            !moves.contains_key(*unit) && held.get(*unit).is_some_and(|held| held.holder == *from && !stays(held))
        };
        let Some(unit) = units.iter().rfind(movable).filter(|_| most > least + 1) else { break };
        moves.insert(unit.clone(), to.clone());
        loads.insert(from, most - 1);
        loads.insert(to, least + 1);
    }
    moves
}

/// Whether a unit stays with a holder that is not working. A silent member keeps units that were assigned to it recently; a flapping heartbeat would
/// otherwise move units back and forth. It also keeps units with outside effects, because it may still be working.
pub(crate) fn may_wait(members: &BTreeMap<Str, State>, held: &Held) -> bool {
    let damped = held.settling && !seeded_bug!("suspicion_undamped");
    let outside = held.outside && !seeded_bug!("cloud_moves_on_suspicion");
    match members.get(&held.holder) {
        Some(State::Working) => false,
        Some(State::Silent) => damped || outside,
        _ => held.outside && held.unseen,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn units(count: u16) -> Vec<Unit> {
        (0..count).map(|number| Unit::part("x", number)).collect()
    }

    fn members(states: &[State]) -> BTreeMap<Str, State> {
        states.iter().enumerate().map(|(at, state)| (format!("m{at}").into(), *state)).collect()
    }

    /// Plans and makes the moves; returns their number.
    fn round(units: &[Unit], members: &BTreeMap<Str, State>, held: &mut BTreeMap<Unit, Held>) -> usize {
        let moves = plan(units, members, held);
        let count = moves.len();
        settle(held, moves);
        count
    }

    fn settle(held: &mut BTreeMap<Unit, Held>, moves: BTreeMap<Unit, Str>) {
        held.extend(moves.into_iter().map(|(unit, holder)| (unit, held_by(holder))));
    }

    fn held_by(holder: Str) -> Held {
        Held { holder, settling: false, outside: false, unseen: false }
    }

    fn loads(held: &BTreeMap<Unit, Held>) -> BTreeMap<String, usize> {
        held.values().fold(BTreeMap::new(), |mut loads, held| {
            *loads.entry(held.holder.to_string()).or_default() += 1;
            loads
        })
    }

    #[test]
    fn a_death_moves_what_the_dead_had_and_nothing_else() {
        let (units, mut held) = (units(18), BTreeMap::new());
        round(&units, &members(&[State::Working; 3]), &mut held);
        assert_eq!(loads(&held).into_values().collect::<Vec<_>>(), [6, 6, 6]);
        for end in [State::Expired, State::Leaving] {
            let moves = plan(&units, &members(&[State::Working, end, State::Working]), &held);
            let theirs: Vec<_> = held.iter().filter(|(_, held)| held.holder.as_str() == "m1").map(|(u, _)| u).collect();
            assert_eq!(moves.keys().collect::<Vec<_>>(), theirs);
        }
    }

    #[test]
    fn who_joins_gets_its_part_in_steps_and_nobody_at_work_means_no_move() {
        let (units, mut held) = (units(16), BTreeMap::new());
        round(&units, &members(&[State::Working]), &mut held);
        let two = members(&[State::Working, State::Working]);
        let mut rounds = 0;
        while (1..=MAX_BALANCE_MOVES).contains(&round(&units, &two, &mut held)) {
            rounds += 1;
        }
        assert_eq!((rounds, loads(&held).into_values().collect::<Vec<_>>()), (2, vec![8, 8]));
        assert!(plan(&units, &members(&[State::Expired, State::Leaving]), &held).is_empty());
    }

    #[test]
    fn what_has_just_come_stays_unless_it_must_go() {
        let held: BTreeMap<Unit, Held> =
            units(4).into_iter().map(|unit| (unit, Held { settling: true, ..held_by("m0".into()) })).collect();
        assert!(plan(&units(4), &members(&[State::Working; 2]), &held).is_empty());
        assert_eq!(plan(&units(4), &members(&[State::Expired, State::Working]), &held).len(), 4);
    }

    #[test]
    fn silence_moves_what_has_settled_and_nothing_that_has_just_come() {
        let mut held = BTreeMap::new();
        round(&units(4), &members(&[State::Working]), &mut held);
        let states = members(&[State::Silent, State::Working]);
        assert_eq!(plan(&units(4), &states, &held).len(), 4);
        held.values_mut().for_each(|held| held.settling = true);
        assert!(plan(&units(4), &states, &held).is_empty());
        assert!(plan(&units(4), &members(&[State::Silent, State::Silent]), &held).is_empty());
    }

    #[test]
    fn what_reaches_outside_moves_when_its_holder_leaves_or_its_lease_has_run_out_and_for_nothing_else() {
        let unit = Unit::named("cloud");
        let held = BTreeMap::from([(unit.clone(), Held { outside: true, ..held_by("m0".into()) })]);
        let moves = |state| plan(std::slice::from_ref(&unit), &members(&[state, State::Working]), &held).len();
        assert_eq!([State::Working, State::Silent, State::Leaving, State::Expired].map(moves), [0, 0, 1, 1]);
        // Nor does a judgement move it that rests on Leases older than the Assignment.
        let unseen = BTreeMap::from([(unit.clone(), Held { unseen: true, ..held[&unit].clone() })]);
        assert!(plan(std::slice::from_ref(&unit), &members(&[State::Expired, State::Working]), &unseen).is_empty());
        // Loads of four and zero: only units without outside effects move.
        let mut all = held.clone();
        all.extend(units(3).into_iter().map(|unit| (unit, held_by("m0".into()))));
        let names: Vec<Unit> = units(3).into_iter().chain([unit.clone()]).collect();
        let moves = plan(&names, &members(&[State::Working, State::Working]), &all);
        assert_eq!((moves.len(), moves.contains_key(&unit)), (2, false));
    }

    fn state() -> impl Strategy<Value = State> {
        prop_oneof![Just(State::Working), Just(State::Leaving), Just(State::Silent), Just(State::Expired)]
    }

    proptest! {
        #[test]
        fn every_unit_ends_with_somebody_at_work_and_loads_are_even(
            states in proptest::collection::vec(state(), 1..6),
            holders in proptest::collection::vec(0_usize..8, 20),
        ) {
            let (units, members) = (units(20), members(&states));
            prop_assume!(states.contains(&State::Working));
            let mut held: BTreeMap<Unit, Held> = BTreeMap::new();
            // Some units have no holder yet, or an unknown one.
            for (unit, holder) in units.iter().zip(&holders).filter(|(_, holder)| **holder != 7) {
                held.insert(unit.clone(), held_by(format!("m{holder}").into()));
            }
            for _ in 0..20 {
                let moves = plan(&units, &members, &held);
                prop_assert!(moves.values().all(|to| members[to] == State::Working));
                settle(&mut held, moves);
            }
            prop_assert!(plan(&units, &members, &held).is_empty(), "it comes to rest");
            prop_assert_eq!(held.len(), units.len());
            prop_assert!(held.values().all(|held| members[&held.holder] == State::Working));
            let loads = loads(&held);
            let working = states.iter().filter(|state| **state == State::Working).count();
            let most = loads.values().max().copied().unwrap_or(0);
            let least = if loads.len() < working { 0 } else { loads.values().min().copied().unwrap_or(0) };
            prop_assert!(most <= least + 1, "{:?}", loads);
        }
    }
}

//! Correct histories pass, damaged ones fail, and a general checker agrees.

use std::collections::BTreeMap;

use oarlock_check::{History, Report, Rule, check};
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::generate::{NARROW, WIDE, history};
use crate::mutate::{ALL, OPINION, ORDER, disturb};

#[track_caller]
fn judged(lines: &[oarlock_check::history::Line]) -> (History, Report) {
    let history = History::from_lines(lines).unwrap_or_else(|error| panic!("{error}"));
    let report = check(&history);
    (history, report)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn correct_histories_pass(seed: u64) {
        let (history, report) = judged(&history(WIDE, seed));
        prop_assert!(report.violations.is_empty(), "\n{}", report.show(&history, 10));
    }

    #[test]
    fn a_general_checker_sees_what_the_order_of_revisions_shows(seed: u64, changes in 0..4_u8) {
        let mut lines = history(NARROW, seed);
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..changes {
            disturb(&mut lines, &mut rng);
        }
        let (history, report) = judged(&lines);
        prop_assume!(report.checked(OPINION) == 1);
        let order = ORDER.iter().any(|rule| report.broken(*rule));
        prop_assert_eq!(report.broken(OPINION), order, "\n{}", report.show(&history, 10));
    }
}

#[test]
fn damage_is_noticed() {
    let mut done: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..60 {
        let correct = history(WIDE, seed);
        for mutation in ALL {
            let mut lines = correct.clone();
            let mut rng = StdRng::seed_from_u64(seed);
            if !(mutation.apply)(&mut lines, &mut rng) {
                continue;
            }
            *done.entry(mutation.name).or_default() += 1;
            let (history, report) = judged(&lines);
            let noticed = mutation.caught_by.iter().any(|rule| report.broken(*rule));
            assert!(noticed, "{} (seed {seed}) went unnoticed\n{}", mutation.name, report.show(&history, 10));
        }
    }
    eprintln!("{done:?}");
    for mutation in ALL {
        assert!(done.get(mutation.name).is_some_and(|times| *times >= 10), "{}: {done:?}", mutation.name);
    }
}

/// Generated histories check every rule; otherwise their success would show nothing.
#[test]
fn every_rule_is_asked() {
    let reports: Vec<_> = (0..20).map(|seed| judged(&history(WIDE, seed)).1).collect();
    for rule in Rule::OF_CLIENTS {
        let asked: u64 = reports.iter().map(|report| report.checked(rule)).sum();
        assert!(asked >= 50, "{rule}: {asked}");
    }
}

/// The disturbed histories include both correct and damaged ones; otherwise the comparison above would show nothing.
#[test]
fn the_general_checker_is_asked_about_both_kinds() {
    let mut verdicts = [0_u32; 2];
    for seed in 0..200 {
        let mut lines = history(NARROW, seed);
        disturb(&mut lines, &mut StdRng::seed_from_u64(seed));
        verdicts[usize::from(judged(&lines).1.broken(OPINION))] += 1;
    }
    assert!(verdicts.iter().all(|times| *times >= 20), "{verdicts:?}");
}

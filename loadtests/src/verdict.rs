//! Decides whether the values of a figure are worse: a pure function.
//!
//! A figure is worse when its median is worse by more than the limit, and the values are so by more than the noise: the other side's values, each made worse
//! by the limit, still rank below them so clearly that values drawn alike would do so in one of [`LEVEL`]'s cases at most. That is Wilcoxon's rank sum test
//! (<https://doi.org/10.2307/3001968>), one-sided and exact. It asks for ranks and not for distances, so one outlier decides nothing.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use oarlock_seeded_bug::seeded_bug;

use crate::report::{Better, median};

/// The largest probability that noise alone counts as worse, for a figure whose true difference is the limit.
const LEVEL: f64 = 0.01;
/// The fewest values of a side with which the test can reach [`LEVEL`]: all five above all five others is one case in 252, four above four one in 70.
pub(crate) const FEWEST: usize = 5;

/// What is said of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The median is not worse by more than the limit.
    Fine,
    /// Worse by more than the limit and the noise.
    Worse,
    /// The median is worse by more than the limit, but noise may be the only cause.
    Noisy,
    /// One side has fewer than [`FEWEST`] values.
    Few,
    /// Only one side has the figure, in this unit.
    Alone,
    /// No direction is better.
    Shown,
}

impl Verdict {
    /// The verdict's text in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Worse => "worse",
            Self::Noisy => "too noisy to say",
            Self::Few => "too few values to say",
            Self::Alone => "only one side has it",
            Self::Shown => "shown only",
        }
    }

    /// Whether the figure was measured well enough to be judged.
    pub(crate) const fn is_judgement(self) -> bool {
        matches!(self, Self::Fine | Self::Worse)
    }
}

/// Judges a figure from the values of both sides. The limit is a share: 0.05 for 5 %.
pub(crate) fn judge(better: Better, limit: f64, base: &[f64], today: &[f64]) -> Verdict {
    if base.is_empty() || today.is_empty() {
        return Verdict::Alone;
    }
    let Some(worse_by) = worse_by(better, base, today) else { return Verdict::Shown };
    if base.len().min(today.len()) < FEWEST {
        return Verdict::Few;
    }
    if worse_by <= limit {
        return Verdict::Fine;
    }
    let allowed: Vec<f64> = costs(better, base).into_iter().map(|cost| cost + limit * cost.abs()).collect();
    if chance(&allowed, &costs(better, today)) <= LEVEL { Verdict::Worse } else { Verdict::Noisy }
}

/// By what share today's median is worse, below zero where it is better; none where no direction is better or a side has no values. A rate counts as the time
/// of each: a fifth less a second is a quarter worse.
pub(crate) fn worse_by(better: Better, base: &[f64], today: &[f64]) -> Option<f64> {
    if better == Better::Neither {
        return None;
    }
    let (base, today) = (median(costs(better, base))?, median(costs(better, today))?);
    Some(match base.total_cmp(&today) {
        Ordering::Equal => 0.0,
        // There is a rate now where there was none.
        _ if base.is_infinite() => -1.0,
        _ => (today - base) / base.abs(),
    })
}

/// Values of which a lower one is better. Figures of which a higher one is better are never below zero.
fn costs(better: Better, values: &[f64]) -> Vec<f64> {
    let inverse = better == Better::Higher && !seeded_bug!("figures_direction_forgotten");
    // Zero is added since the zero below zero would rank below it.
    values.iter().map(|value| if inverse { 1.0 / value } else { value + 0.0 }).collect()
}

/// The chance that values all drawn alike rank `upper` above `lower` as clearly as these, or more: the share of ways to choose as many ranks whose sum is as
/// high. Equal values share the middle of their ranks.
fn chance(lower: &[f64], upper: &[f64]) -> f64 {
    let all = || lower.iter().chain(upper);
    // Doubled, so that the middle of several is a whole number.
    let rank = |value: &f64| -> usize {
        let below = |other: &f64| match other.total_cmp(value) {
            Ordering::Less => 2,
            Ordering::Equal => 1,
            Ordering::Greater => 0,
        };
        all().map(below).sum()
    };
    let observed: usize = upper.iter().map(rank).sum();
    // In how many ways so many ranks have this sum.
    let mut ways = BTreeMap::from([((0, 0), 1.0)]);
    for rank in all().map(rank) {
        for ((taken, sum), count) in ways.clone() {
            if taken < upper.len() {
                *ways.entry((taken + 1, sum + rank)).or_insert(0.0) += count;
            }
        }
    }
    let chosen = || ways.iter().filter(|((taken, _), _)| *taken == upper.len());
    let as_high: f64 = chosen().filter(|((_, sum), _)| *sum >= observed).map(|(_, count)| count).sum();
    as_high / chosen().map(|(_, count)| count).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: f64 = 0.05;

    /// Values around 100, with noise.
    const QUIET: &[f64] = &[100.0, 99.0, 101.5, 100.5, 98.5, 101.0, 99.5, 100.2];
    const WILD: &[f64] = &[100.0, 60.0, 170.0, 120.0, 80.0, 75.0, 140.0, 95.0];

    fn times(values: &[f64], factor: f64) -> Vec<f64> {
        values.iter().map(|value| value * factor).collect()
    }

    fn lower(base: &[f64], today: &[f64]) -> Verdict {
        judge(Better::Lower, LIMIT, base, today)
    }

    #[test]
    fn the_same_is_not_worse() {
        for values in [QUIET, WILD] {
            assert_eq!(lower(values, values), Verdict::Fine);
            assert_eq!(judge(Better::Higher, LIMIT, values, values), Verdict::Fine);
        }
        assert_eq!(lower(QUIET, &times(QUIET, 1.04)), Verdict::Fine);
        assert_eq!(lower(QUIET, &times(QUIET, 0.5)), Verdict::Fine);
    }

    #[test]
    fn a_fifth_is_worse_when_the_noise_is_small_and_too_noisy_when_it_is_not() {
        assert_eq!(lower(QUIET, &times(QUIET, 1.2)), Verdict::Worse);
        assert_eq!(lower(WILD, &times(WILD, 1.2)), Verdict::Noisy);
        assert_eq!(judge(Better::Lower, 0.25, QUIET, &times(QUIET, 1.2)), Verdict::Fine);
    }

    /// 5.5 % are more than nothing beyond this noise, but not more than 5 %.
    #[test]
    fn the_noise_counts_beyond_the_limit_and_not_beyond_nothing() {
        assert!(chance(QUIET, &times(QUIET, 1.055)) <= LEVEL);
        assert_eq!(lower(QUIET, &times(QUIET, 1.055)), Verdict::Noisy);
    }

    #[test]
    fn a_rate_is_worse_when_it_falls_and_a_time_when_it_rises() {
        let (less, more) = (times(QUIET, 0.8), times(QUIET, 1.25));
        assert_eq!(judge(Better::Higher, LIMIT, QUIET, &less), Verdict::Worse);
        assert_eq!(judge(Better::Higher, LIMIT, QUIET, &more), Verdict::Fine);
        assert_eq!(lower(QUIET, &more), Verdict::Worse);
        assert_eq!(lower(QUIET, &less), Verdict::Fine);
        assert_eq!(judge(Better::Neither, LIMIT, QUIET, &more), Verdict::Shown);
        let rounded = |better, today| (worse_by(better, &[100.0], &[today]).unwrap() * 1000.0).round();
        assert_eq!([rounded(Better::Higher, 80.0), rounded(Better::Lower, 125.0)], [250.0, 250.0]);
        assert_eq!([rounded(Better::Higher, 125.0), rounded(Better::Lower, 80.0)], [-200.0, -200.0]);
    }

    #[test]
    fn an_outlier_makes_nothing_worse_and_hides_nothing() {
        let with = |values: &[f64], outlier: f64| [&[outlier][..], &values[1..]].concat();
        let worse = times(QUIET, 1.2);
        assert_eq!(lower(QUIET, &with(QUIET, 1000.0)), Verdict::Fine);
        assert_eq!(lower(&with(QUIET, 1.0), QUIET), Verdict::Fine);
        assert_eq!(lower(QUIET, &with(&worse, 1.0)), Verdict::Worse);
        assert_eq!(lower(&with(QUIET, 1000.0), &worse), Verdict::Worse);
    }

    #[test]
    fn few_values_say_nothing() {
        let worse = times(QUIET, 3.0);
        let first = |count| (&QUIET[..count], &worse[..count]);
        let verdict = |(base, today): (&[f64], &[f64])| lower(base, today);
        assert_eq!(verdict(first(FEWEST - 1)), Verdict::Few);
        assert_eq!(verdict(first(FEWEST)), Verdict::Worse);
        assert_eq!(lower(QUIET, first(FEWEST - 1).1), Verdict::Few);
        assert_eq!([lower(QUIET, &[]), lower(&[], QUIET)], [Verdict::Alone; 2]);
    }

    #[test]
    fn what_was_never_and_is_now_is_worse() {
        assert_eq!(lower(&[0.0; 8], &[0.0; 8]), Verdict::Fine);
        assert_eq!(lower(&[0.0; 8], &[-0.0; 8]), Verdict::Fine);
        assert_eq!(lower(&[0.0; 8], &[1.0; 8]), Verdict::Worse);
        assert_eq!(judge(Better::Higher, LIMIT, &[1.0; 8], &[0.0; 8]), Verdict::Worse);
        assert_eq!(judge(Better::Higher, LIMIT, &[0.0; 8], &[1.0; 8]), Verdict::Fine);
        assert_eq!(lower(&[-2.0; 8], &[-2.05; 8]), Verdict::Fine);
        assert_eq!(lower(&[-2.0; 8], &[-1.0; 8]), Verdict::Worse);
    }

    /// All ways in which ten different values can fall to two sides: of these no more than one in a hundred may count as worse.
    #[test]
    fn noise_alone_is_worse_no_more_often_than_the_level_says() {
        let (mut worse, mut all) = (0, 0);
        for chosen in 0..1_u32 << 10 {
            if chosen.count_ones() != 5 {
                continue;
            }
            let (mut base, mut today) = (Vec::new(), Vec::new());
            for bit in 0..10_u32 {
                let side = if chosen & (1 << bit) > 0 { &mut today } else { &mut base };
                side.push(100.0 + f64::from(bit));
            }
            all += 1;
            worse += u32::from(judge(Better::Lower, 0.0, &base, &today) == Verdict::Worse);
        }
        assert_eq!((worse, all), (2, 252));
    }

    #[test]
    fn ties_share_their_ranks() {
        assert!((chance(&[1.0, 1.0], &[1.0, 1.0]) - 1.0).abs() < 1e-9);
        // Of the six ways to choose two of 1, 2, 2, 3 two have the sum of 2 and 3, or more.
        assert!((chance(&[1.0, 2.0], &[2.0, 3.0]) - 2.0 / 6.0).abs() < 1e-9);
        assert!((chance(&[1.0, 2.0], &[3.0, 4.0]) - 1.0 / 6.0).abs() < 1e-9);
    }
}

//! Figures and their output: a JSON line for each leg, and a table at the end.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::clock::now;
use crate::machine::{Machine, Quiet};
use crate::output::say;
use crate::subject::Subject;

/// Columns of a chart of one line.
const COLUMNS: usize = 20;

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
    /// The figure describes a run, and no direction is better.
    Neither,
}

/// One figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: Cow<'static, str>,
    /// How much.
    pub(crate) value: f64,
    /// The measured quantity.
    pub(crate) unit: Cow<'static, str>,
    /// Which way is good.
    pub(crate) better: Better,
    /// What is aimed at, where something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) aim: Option<f64>,
    /// The values over the run, in equal parts of its time; empty where the course is of no interest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) over_time: Vec<f64>,
    /// The values of the runs of which `value` is the median; empty for a single one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) runs: Vec<f64>,
    /// The scenario's own verdict, for a figure with a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Cow<'static, str>>,
    /// Whether the figure is over its limit by more than the noise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) exceeded: bool,
}

impl Figure {
    /// A figure.
    pub(crate) fn new(name: impl Into<Cow<'static, str>>, value: f64, unit: &'static str, better: Better) -> Self {
        let (name, unit, over_time, runs) = (name.into(), unit.into(), Vec::new(), Vec::new());
        Self { name, value, unit, better, aim: None, over_time, runs, verdict: None, exceeded: false }
    }

    /// The median of several runs; 0 of none.
    pub(crate) fn of_runs(
        name: impl Into<Cow<'static, str>>,
        runs: Vec<f64>,
        unit: &'static str,
        better: Better,
    ) -> Self {
        Self { runs: runs.clone(), ..Self::new(name, median(runs).unwrap_or_default(), unit, better) }
    }

    /// Adds the scenario's verdict.
    pub(crate) fn judged(self, verdict: &'static str, exceeded: bool) -> Self {
        Self { verdict: Some(verdict.into()), exceeded, ..self }
    }

    /// Adds a goal.
    pub(crate) fn aim(self, aim: f64) -> Self {
        Self { aim: Some(aim), ..self }
    }

    /// Adds the course over the run.
    pub(crate) fn over_time(self, over_time: Vec<f64>) -> Self {
        Self { over_time, ..self }
    }
}

/// Durations, and when each ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<(Instant, Duration)>);

impl Times {
    /// Something that took so long is done now.
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push((now(), took));
    }

    /// Both together.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// In milliseconds; 0 when there are none.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut times: Vec<Duration> = self.0.iter().map(|(_, took)| *took).collect();
        times.sort_unstable();
        let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    }

    /// How many there were.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(crate) fn count(&self) -> f64 {
        self.0.len() as f64
    }

    /// How many a second were done in each of [`COLUMNS`] equal parts of the time.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a column of a chart"
    )]
    pub(crate) fn rates(&self) -> Vec<f64> {
        let done = || self.0.iter().map(|(done, _)| *done);
        let (Some(first), Some(last)) = (done().min(), done().max()) else { return Vec::new() };
        let column = (last - first).as_secs_f64() / COLUMNS as f64;
        let mut counts = vec![0.0; COLUMNS];
        for done in done() {
            let at = ((done - first).as_secs_f64() / column) as usize;
            if let Some(count) = counts.get_mut(at.min(COLUMNS - 1)) {
                *count += 1.0 / column;
            }
        }
        counts
    }
}

/// A row of the table: one figure of one scenario, of every subject.
struct Row {
    scenario: String,
    figure: Figure,
    values: Vec<(Subject, f64)>,
}

/// All results of a run.
pub(crate) struct Report {
    machine: Machine,
    subjects: Vec<Subject>,
    rows: Vec<Row>,
}

impl Report {
    /// An empty report.
    pub(crate) fn new(machine: Machine, subjects: Vec<Subject>) -> Self {
        Self { machine, subjects, rows: Vec::new() }
    }

    /// Adds the result of one round of a scenario for a subject, and prints the result as a JSON line.
    pub(crate) fn add(&mut self, scenario: &str, subject: Subject, round: usize, quiet: Quiet, figures: Vec<Figure>) {
        say(&serde_json::json!({
            "scenario": scenario, "subject": subject.name(), "round": round, "before": quiet, "figures": figures,
            "commit": self.machine.commit,
        })
        .to_string());
        for figure in figures {
            let values = if figure.runs.is_empty() { vec![figure.value] } else { figure.runs.clone() };
            let values = values.into_iter().map(|value| (subject, value));
            match self.rows.iter_mut().find(|row| row.scenario == scenario && row.figure.name == figure.name) {
                Some(row) => {
                    row.values.extend(values);
                    // The worst round decides.
                    if figure.exceeded || !row.figure.exceeded {
                        row.figure = figure;
                    }
                }
                None => self.rows.push(Row { scenario: scenario.to_owned(), values: values.collect(), figure }),
            }
        }
    }

    /// The figures that are over their limits by more than the noise.
    pub(crate) fn exceeded(&self) -> Vec<String> {
        let rows = self.rows.iter().filter(|row| row.figure.exceeded);
        rows.map(|row| format!("{} {}", row.scenario, row.figure.name)).collect()
    }

    /// Prints the table, as Markdown.
    pub(crate) fn print(&self) {
        say(&format!("\n{}\n", self.machine));
        let names: Vec<&str> = self.subjects.iter().map(|subject| subject.name()).collect();
        let compare = names.len() > 1;
        let ratio = if compare { " better by |" } else { "" };
        say(&format!("| scenario | figure | {} |{ratio} over time |", names.join(" | ")));
        say(&format!("|---|---|{}{}---|", "---:|".repeat(names.len()), if compare { "---:|" } else { "" }));
        for row in &self.rows {
            let mut line = format!("| {} | {} |", row.scenario, row.figure.name);
            for subject in &self.subjects {
                let _ = write!(line, " {} |", row.cell(*subject));
            }
            if compare {
                let _ = write!(line, " {} |", row.ratio().map_or_else(String::new, |ratio| format!("{ratio:.1}×")));
            }
            say(&format!("{line} {} |", sparkline(&row.figure.over_time)));
        }
    }
}

impl Row {
    fn values(&self, subject: Subject) -> Vec<f64> {
        self.values.iter().filter(|(of, _)| *of == subject).map(|(_, value)| *value).collect()
    }

    /// The median, the range where there is one, and the aim.
    fn cell(&self, subject: Subject) -> String {
        let Some(cell) = median_and_range(self.values(subject), &self.figure.unit) else { return "–".to_owned() };
        let aim = self.figure.aim.map_or_else(String::new, |aim| format!(", aim {}", short(aim)));
        let verdict = self.figure.verdict.as_ref().map_or_else(String::new, |verdict| format!(", {verdict}"));
        cell + &aim + &verdict
    }

    /// How many times better we are than upstream.
    fn ratio(&self) -> Option<f64> {
        let (ours, theirs) = (median(self.values(Subject::Oarlock))?, median(self.values(Subject::Upstream))?);
        let ratio = match self.figure.better {
            Better::Higher => ours / theirs,
            Better::Lower => theirs / ours,
            Better::Neither => return None,
        };
        ratio.is_finite().then_some(ratio)
    }
}

/// The middle value, or the middle between the two in the middle; none of no values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = values.get(half).copied()?;
    let lower = values.get(half.saturating_sub(1)).filter(|_| values.len().is_multiple_of(2));
    Some(lower.map_or(upper, |lower| f64::midpoint(*lower, upper)))
}

/// The median and, of several values, the range; none of no values.
pub(crate) fn median_and_range(values: Vec<f64>, unit: &str) -> Option<String> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    let range = if values.len() > 1 { format!(" ({}–{})", short(least), short(most)) } else { String::new() };
    Some(format!("{} {unit}{range}", short(median(values)?)))
}

/// Three digits, or all before the point.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// A chart of one line.
fn sparkline(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().fold(0.0, f64::max);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a bar's height")]
    let bar = |value: &f64| BARS.get((value / most * 7.0).round() as usize).copied().unwrap_or(' ');
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_say_how_many_times_better_we_are() {
        let row = |better, ours, theirs| Row {
            scenario: String::new(),
            figure: Figure::new("", 0.0, "", better),
            values: vec![(Subject::Oarlock, ours), (Subject::Upstream, theirs)],
        };
        assert_eq!(row(Better::Higher, 600.0, 100.0).ratio(), Some(6.0));
        assert_eq!(row(Better::Lower, 2.0, 50.0).ratio(), Some(25.0));
        assert_eq!(row(Better::Lower, 0.0, 50.0).ratio(), None);
        assert_eq!(row(Better::Neither, 600.0, 100.0).ratio(), None);
    }

    #[test]
    fn cells_hold_the_median_and_the_range() {
        let figure = Figure::new("", 0.0, "ms", Better::Lower);
        let values = [3.2678, 120.4, 22.22].map(|value| (Subject::Oarlock, value)).to_vec();
        let row = Row { scenario: String::new(), figure, values };
        assert_eq!(row.cell(Subject::Oarlock), "22.2 ms (3.27–120)");
        assert_eq!(row.cell(Subject::Upstream), "–");
    }

    #[test]
    fn a_figure_of_several_runs_shows_their_range_and_one_over_its_limit_is_named() {
        let mut report = Report::new(Machine::look(), vec![Subject::Oarlock]);
        let quiet = Quiet { busy: 0.0, sync_ms: 0.0 };
        let cost = |value| Figure::new("ring beside off", value, "%", Better::Lower).aim(2.0);
        let figures = vec![
            Figure::of_runs("off", vec![3.0, 1.0, 2.0, 9.0], "µs", Better::Lower),
            cost(5.0).judged("worse", true),
        ];
        report.add("tracing", Subject::Oarlock, 0, quiet, figures);
        report.add("tracing", Subject::Oarlock, 1, quiet, vec![cost(1.0).judged("fine", false)]);
        let cells: Vec<String> = report.rows.iter().map(|row| row.cell(Subject::Oarlock)).collect();
        assert_eq!(cells, ["2.50 µs (1.00–9.00)", "3.00 % (1.00–5.00), aim 2.00, worse"]);
        assert_eq!(report.exceeded(), ["tracing ring beside off"]);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0, 100.0]), Some(4.0));
        assert_eq!([median(vec![7.0]), median(Vec::new())], [Some(7.0), None]);
    }

    #[test]
    fn charts_reach_from_the_least_to_the_most() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0]), "▁▅█");
        assert_eq!(sparkline(&[]), "");
    }
}

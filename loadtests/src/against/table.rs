//! The table of both sides' figures with the verdicts, and the exit code.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::builds::{Builds, Side};
use super::{UNMEASURED, WORSE};
use crate::report::{Better, Figure, median_and_range};
use crate::verdict::{Verdict, judge, worse_by};

/// One figure of one scenario.
struct Row {
    scenario: String,
    name: String,
    unit: String,
    better: Better,
    base: Vec<f64>,
    today: Vec<f64>,
}

/// A scenario without figures, and why.
struct Missing {
    scenario: String,
    /// Not known to a side, or known and failed.
    what: &'static str,
    why: String,
}

const LEFT_OUT: &str = "left out";
const NOT_MEASURED: &str = "not measured";

/// All figures of a run.
pub(crate) struct Table<'a> {
    builds: &'a Builds,
    /// How much worse today's may be, as a share.
    limit: f64,
    /// The limits of scenarios that have their own.
    own_limits: BTreeMap<String, f64>,
    rows: Vec<Row>,
    missing: Vec<Missing>,
}

impl<'a> Table<'a> {
    /// An empty table.
    pub(crate) fn new(builds: &'a Builds, limit: f64) -> Self {
        Self { builds, limit, own_limits: BTreeMap::new(), rows: Vec::new(), missing: Vec::new() }
    }

    /// Gives a scenario a limit of its own.
    pub(crate) fn limit(&mut self, scenario: &str, limit: f64) {
        self.own_limits.insert(scenario.to_owned(), limit);
    }

    fn limit_of(&self, row: &Row) -> f64 {
        self.own_limits.get(&row.scenario).copied().unwrap_or(self.limit)
    }

    fn verdict(&self, row: &Row) -> Verdict {
        row.verdict(self.limit_of(row))
    }

    /// Adds a round of a scenario on a side. Which direction is better is what today's load tests say, where both sides have the figure.
    pub(crate) fn add(&mut self, scenario: &str, side: Side, figures: Vec<Figure>) {
        for figure in figures {
            let is = |row: &Row| row.scenario == scenario && row.name == figure.name && row.unit == figure.unit;
            if !self.rows.iter().any(is) {
                self.rows.push(Row::new(scenario, &figure));
            }
            self.rows.iter_mut().filter(|row| is(row)).for_each(|row| row.add(side, &figure));
        }
    }

    /// A side does not know the scenario.
    pub(crate) fn left_out(&mut self, scenario: &str, why: &str) {
        self.missing.push(Missing { scenario: scenario.to_owned(), what: LEFT_OUT, why: why.to_owned() });
    }

    /// A leg of the scenario failed; figures of the legs before it are no basis for a verdict.
    pub(crate) fn not_measured(&mut self, scenario: &str, why: &str) {
        self.rows.retain(|row| row.scenario != scenario);
        self.missing.push(Missing { scenario: scenario.to_owned(), what: NOT_MEASURED, why: why.to_owned() });
    }

    /// The table as lines of Markdown, then what needs a look.
    pub(crate) fn lines(&self) -> Vec<String> {
        let [base, today] = Side::BOTH.map(|side| &self.builds.of(side).name);
        let mut lines = vec![
            format!("\n| scenario | figure | {base} | {today} | worse by | verdict |"),
            "|---|---|---:|---:|---:|---|".to_owned(),
        ];
        lines.extend(self.rows.iter().map(|row| row.line(self.verdict(row))));
        lines.push(String::new());
        for verdict in [Verdict::Worse, Verdict::Noisy, Verdict::Few, Verdict::Alone] {
            let rows = self.rows.iter().filter(|row| self.verdict(row) == verdict);
            let names: Vec<String> = rows.map(|row| format!("{} {}", row.scenario, row.name)).collect();
            if !names.is_empty() {
                lines.push(format!("{}: {}", verdict.name(), names.join("; ")));
            }
        }
        let missing = self.missing.iter();
        lines.extend(missing.map(|missing| format!("{}: {}: {}", missing.what, missing.scenario, missing.why)));
        let own = self.own_limits.iter().map(|(scenario, limit)| format!(", of {scenario} {:.0} %", limit * 100.0));
        let limits = own.fold(format!("limit: {:.0} %", self.limit * 100.0), |limits, own| limits + &own);
        lines.push(format!("{limits}; exit code {}", self.exit_code()));
        lines
    }

    /// A JSON object for each figure, and for each scenario that has none.
    pub(crate) fn json(&self) -> Vec<Value> {
        let [base, today] = Side::BOTH.map(|side| &self.builds.of(side).name);
        let figure = |row: &Row| {
            json!({
                "scenario": row.scenario, "figure": row.name, "unit": row.unit, "better": row.better,
                "base": {"name": base, "values": row.base}, "today": {"name": today, "values": row.today},
                "worse_by": row.worse_by(), "limit": self.limit_of(row), "verdict": self.verdict(row).name(),
            })
        };
        let none =
            |missing: &Missing| json!({"scenario": missing.scenario, "verdict": missing.what, "why": missing.why});
        self.rows.iter().map(figure).chain(self.missing.iter().map(none)).collect()
    }

    /// 0 when figures were judged and none is worse; [`WORSE`] when one is; else [`UNMEASURED`], also where a scenario failed.
    pub(crate) fn exit_code(&self) -> u8 {
        let verdicts: Vec<Verdict> = self.rows.iter().map(|row| self.verdict(row)).collect();
        let failed = self.missing.iter().any(|missing| missing.what == NOT_MEASURED);
        let judged = verdicts.iter().any(|verdict| verdict.is_judgement());
        if verdicts.contains(&Verdict::Worse) {
            WORSE
        } else if failed || !judged {
            UNMEASURED
        } else {
            0
        }
    }
}

impl Row {
    fn new(scenario: &str, figure: &Figure) -> Self {
        let (name, unit, better) = (figure.name.to_string(), figure.unit.to_string(), figure.better);
        Self { scenario: scenario.to_owned(), name, unit, better, base: Vec::new(), today: Vec::new() }
    }

    fn add(&mut self, side: Side, figure: &Figure) {
        match side {
            Side::Base => self.base.push(figure.value),
            Side::Today => {
                self.today.push(figure.value);
                self.better = figure.better;
            }
        }
    }

    fn line(&self, verdict: Verdict) -> String {
        let cell = |values: &[f64]| median_and_range(values.to_vec(), &self.unit).unwrap_or_else(|| "–".to_owned());
        let worse_by = self.worse_by().map_or_else(|| "–".to_owned(), |share| format!("{:+.1} %", share * 100.0));
        let (base, today, verdict) = (cell(&self.base), cell(&self.today), verdict.name());
        format!("| {} | {} | {base} | {today} | {worse_by} | {verdict} |", self.scenario, self.name)
    }

    fn verdict(&self, limit: f64) -> Verdict {
        judge(self.better, limit, &self.base, &self.today)
    }

    fn worse_by(&self) -> Option<f64> {
        worse_by(self.better, &self.base, &self.today)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::verdict::FEWEST;

    fn table(builds: &Builds, today: f64) -> Table<'_> {
        let mut table = Table::new(builds, 0.05);
        let figure = |value| vec![Figure::new("creates", value, "/s", Better::Higher)];
        for _ in 0..FEWEST {
            table.add("create-1", Side::Base, figure(100.0));
            table.add("create-1", Side::Today, figure(today));
        }
        table
    }

    #[test]
    fn the_exit_code_says_worse_before_unmeasured_before_fine() {
        let builds = Builds::fake(Path::new(""));
        let mut fine = table(&builds, 99.0);
        assert_eq!(fine.exit_code(), 0);
        fine.left_out("memory", "not known");
        assert_eq!(fine.exit_code(), 0);
        fine.not_measured("list", "it ended");
        assert_eq!(fine.exit_code(), UNMEASURED);
        let mut worse = table(&builds, 80.0);
        let row = "| create-1 | creates | 100 /s (100–100) | 80.0 /s (80.0–80.0) | +25.0 % | worse |";
        assert!(worse.lines().contains(&row.to_owned()), "{:?}", worse.lines());
        assert_eq!(worse.exit_code(), WORSE);
        worse.not_measured("list", "it ended");
        assert_eq!(worse.exit_code(), WORSE);
    }

    #[test]
    fn a_scenario_may_have_a_limit_of_its_own() {
        let builds = Builds::fake(Path::new(""));
        let mut table = table(&builds, 98.0);
        assert_eq!(table.exit_code(), 0);
        table.limit("create-1", 0.01);
        assert_eq!(table.exit_code(), WORSE);
        assert_eq!(table.lines().last().unwrap(), "limit: 5 %, of create-1 1 %; exit code 1");
        assert_eq!(table.json()[0]["limit"], 0.01);
    }

    #[test]
    fn nothing_judged_is_not_fine() {
        let builds = Builds::fake(Path::new(""));
        let mut table = table(&builds, 99.0);
        table.not_measured("create-1", "round 6 failed");
        table.missing.clear();
        assert_eq!(table.exit_code(), UNMEASURED);
        table.add("create-1", Side::Base, vec![Figure::new("creates", 1.0, "/s", Better::Higher)]);
        assert_eq!(table.exit_code(), UNMEASURED);
    }

    #[test]
    fn a_figure_in_another_unit_is_another_figure_and_todays_direction_counts() {
        let builds = Builds::fake(Path::new(""));
        let mut table = Table::new(&builds, 0.05);
        for _ in 0..FEWEST {
            table.add(
                "x",
                Side::Base,
                vec![Figure::new("a", 1.0, "s", Better::Lower), Figure::new("b", 2.0, "", Better::Higher)],
            );
            table.add(
                "x",
                Side::Today,
                vec![Figure::new("a", 9.0, "ms", Better::Lower), Figure::new("b", 1.0, "", Better::Lower)],
            );
        }
        let verdicts: Vec<Verdict> = table.rows.iter().map(|row| row.verdict(0.05)).collect();
        assert_eq!(verdicts, [Verdict::Alone, Verdict::Fine, Verdict::Alone]);
    }
}

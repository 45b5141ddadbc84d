//! Results: JSON lines as they come, a table at the end.

use serde::Serialize;

use crate::args::Args;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: String,
    /// How much.
    pub(crate) value: f64,
    /// Of what.
    pub(crate) unit: &'static str,
}

impl Figure {
    /// A figure.
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit }
    }
}

/// All results of a run.
pub(crate) struct Report {
    json: bool,
    rows: Vec<(&'static str, Figure)>,
}

impl Report {
    /// An empty report.
    pub(crate) fn new(args: &Args) -> Self {
        Self { json: args.json, rows: Vec::new() }
    }

    /// Adds a scenario's figures and prints them as a JSON line.
    #[expect(clippy::print_stdout, reason = "results go to the person or program that runs this")]
    pub(crate) fn add(&mut self, scenario: &'static str, figures: Vec<Figure>) {
        println!("{}", serde_json::json!({"scenario": scenario, "figures": figures}));
        self.rows.extend(figures.into_iter().map(|f| (scenario, f)));
    }

    /// Prints the table.
    #[expect(clippy::print_stdout, reason = "results go to the person who runs this")]
    pub(crate) fn print(&self) {
        if self.json {
            return;
        }
        println!();
        for (scenario, figure) in &self.rows {
            println!("{scenario:<10} {:<44} {:>12.2} {}", figure.name, figure.value, figure.unit);
        }
    }
}

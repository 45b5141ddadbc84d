//! A dashboard in the format of VictoriaMetrics' vmui (`-vmui.customDashboardsPath`), which knows neither variables nor exemplars.

use serde_json::{Value, json};

use super::{Dashboard, FULL_WIDTH, Panel, Unit};

/// Width of vmui's grid.
const GRID: u32 = 12;
/// Stands for Grafana's interval, which depends on the zoom.
const INTERVAL: &str = "5m";

/// Returns the dashboard; every variable counts with all its values.
pub(super) fn text(dashboard: &Dashboard, file: &str) -> String {
    let rows = dashboard.rows.iter().map(|row| {
        let panels: Vec<Value> = row.panels.iter().map(|one| panel(dashboard, one)).collect();
        json!({"title": row.title, "panels": panels})
    });
    let rows: Vec<Value> = rows.collect();
    json!({"title": dashboard.title, "filename": file, "rows": rows}).to_string() + "\n"
}

fn panel(dashboard: &Dashboard, panel: &Panel) -> Value {
    let (queries, legends): (Vec<String>, Vec<&String>) =
        panel.queries.iter().map(|(query, legend)| (plain(dashboard, query), legend)).unzip();
    json!({
        "title": panel.title, "description": panel.about, "unit": unit(panel.unit), "width": (panel.width * GRID).div_ceil(FULL_WIDTH),
        "expr": queries, "alias": legends, "showLegend": true,
    })
}

fn plain(dashboard: &Dashboard, query: &str) -> String {
    let query = query.replace("$__rate_interval", INTERVAL);
    dashboard.variables.iter().fold(query, |query, variable| query.replace(&format!("${}", variable.name), ".*"))
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "s",
        Unit::Bytes => "B",
        Unit::BytesRate => "B/s",
        Unit::Requests | Unit::Rate => "/s",
        Unit::Share | Unit::Count => "",
    }
}

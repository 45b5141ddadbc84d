//! A dashboard as JSON for Grafana's provisioning.

use serde_json::{Value, json};

use super::{Dashboard, FULL_WIDTH, Panel, Unit, Variable};

/// Height of a panel in units of the grid.
const HEIGHT: u32 = 8;
/// Version of Grafana's format.
const SCHEMA_VERSION: u32 = 39;

/// Returns the dashboard with a panel on each line.
pub(super) fn text(dashboard: &Dashboard, stem: &str) -> String {
    let head = json!({
        "uid": format!("oarlock-{stem}"),
        "title": format!("Oarlock / {}", dashboard.title),
        "description": dashboard.about,
        "tags": ["oarlock"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": false,
        "graphTooltip": 1,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "title": "Oarlock", "tags": ["oarlock"], "asDropdown": true, "includeVars": false, "keepTime": true}],
        "templating": {"list": dashboard.variables.iter().map(variable).collect::<Vec<_>>()},
    });
    let panels: Vec<String> = panels(dashboard).iter().map(Value::to_string).collect();
    let head = head.to_string();
    format!("{},\n\"panels\": [\n{}\n]}}\n", head.strip_suffix('}').unwrap_or(&head), panels.join(",\n"))
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "prometheus"})
}

fn variable(Variable { name, query }: &Variable) -> Value {
    json!({
        "name": name, "type": "query", "datasource": source(), "query": {"query": query, "refId": name}, "refresh": 2, "sort": 1,
        "multi": true, "includeAll": true, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]},
    })
}

/// Places rows below one another, and the panels of a row from left to right.
fn panels(dashboard: &Dashboard) -> Vec<Value> {
    let mut placed = Vec::new();
    let mut y = 0;
    for row in &dashboard.rows {
        let place = json!({"h": 1, "w": FULL_WIDTH, "x": 0, "y": y});
        placed.push(json!({"id": placed.len() + 1, "type": "row", "title": row.title, "collapsed": false, "gridPos": place, "panels": []}));
        y += 1;
        let mut x = 0;
        for one in &row.panels {
            if x + one.width > FULL_WIDTH {
                (x, y) = (0, y + HEIGHT);
            }
            placed.push(panel(one, placed.len() + 1, &json!({"h": HEIGHT, "w": one.width, "x": x, "y": y})));
            x += one.width;
        }
        y += HEIGHT;
    }
    placed
}

fn panel(panel: &Panel, id: usize, place: &Value) -> Value {
    let target = |(letter, (query, legend)): (char, &(String, String))| {
        json!({
            "refId": letter.to_string(), "datasource": source(), "expr": query, "legendFormat": legend, "range": true,
            "exemplar": panel.exemplars,
        })
    };
    let targets: Vec<Value> = ('A'..='Z').zip(&panel.queries).map(target).collect();
    let stacking = if panel.stacked { "normal" } else { "none" };
    json!({
        "id": id, "type": "timeseries", "title": panel.title, "description": panel.about, "datasource": source(), "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": unit(panel.unit), "min": 0, "custom": {"fillOpacity": 10, "stacking": {"mode": stacking}}},
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": targets,
    })
}

/// Grafana's name of a unit.
fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "s",
        Unit::Bytes => "bytes",
        Unit::BytesRate => "Bps",
        Unit::Requests => "reqps",
        Unit::Rate => "ops",
        Unit::Share => "percentunit",
        Unit::Count => "short",
    }
}

//! Tests of the two formats, over a dashboard of two rows.

use serde_json::Value;

use super::{Dashboard, grafana, vmui};

const SOURCE: &str = r#"
title = "Example"
about = "For tests."
variables = [{name = "resource", query = "label_values(up, resource)"}]
[[rows]]
title = "First"
[[rows.panels]]
title = "Wide"
about = "Most of the row."
unit = "seconds"
width = 20
exemplars = true
queries = [['rate(up{resource=~"$resource"}[$__rate_interval])', "{{job}}"], ["up", "all"]]
[[rows.panels]]
title = "Next line"
about = "Has no room beside the first."
unit = "share"
queries = [["up", ""]]
[[rows]]
title = "Second"
panels = [{title = "Stack", about = "Adds up.", unit = "bytes_rate", stacked = true, queries = [["up", ""]]}]
"#;

fn example() -> Dashboard {
    toml::from_str(SOURCE).unwrap()
}

#[test]
fn grafana_places_each_panel_with_its_unit_and_queries() {
    let file: Value = serde_json::from_str(&grafana::text(&example(), "example")).unwrap();
    assert_eq!(file["uid"], "oarlock-example");
    assert_eq!(file["templating"]["list"][0]["name"], "resource");
    let panels = file["panels"].as_array().unwrap();
    let place = |panel: &Value| ["x", "y", "w"].map(|key| panel["gridPos"][key].as_u64().unwrap());
    let places: Vec<[u64; 3]> = panels.iter().map(place).collect();
    assert_eq!(places, [[0, 0, 24], [0, 1, 20], [0, 9, 8], [0, 17, 24], [0, 18, 8]]);
    assert_eq!(panels[1]["fieldConfig"]["defaults"]["unit"], "s");
    assert_eq!((&panels[1]["targets"][1]["refId"], &panels[1]["targets"][0]["exemplar"]), (&"B".into(), &true.into()));
    assert_eq!(panels[4]["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"], "normal");
}

#[test]
fn vmui_has_no_variables() {
    let file: Value = serde_json::from_str(&vmui::text(&example(), "example.json")).unwrap();
    let panel = &file["rows"][0]["panels"][0];
    assert_eq!(panel["expr"][0], r#"rate(up{resource=~".*"}[5m])"#);
    assert_eq!((&panel["width"], &panel["alias"][0]), (&10.into(), &"{{job}}".into()));
}

#[test]
fn a_dashboard_says_what_each_panel_shows() {
    example().check().unwrap();
    for (from, to) in [("\"Adds up.\"", "\" \""), ("width = 20", "width = 25"), ("[[\"up\", \"\"]]}", "[]}")] {
        let broken: Dashboard = toml::from_str(&SOURCE.replace(from, to)).unwrap();
        assert!(broken.check().is_err(), "{to}");
    }
    assert!(toml::from_str::<Dashboard>(&SOURCE.replace("bytes_rate", "furlongs")).is_err());
}

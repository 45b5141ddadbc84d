//! Every text rule of this crate against recorded answers of upstream's own library (`data/upstream.json` describes the recording).

use oarlock_meta::quantity::Quantity;
use oarlock_meta::quote::quote;
use oarlock_meta::selector::{FieldSelector, LabelSelector};
use oarlock_meta::time::{GoDuration, MicroTime, Time, human_duration};
use serde_json::Value;

fn table(name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("data/upstream.json")).unwrap();
    all[name].as_array().unwrap().clone()
}

/// Compares a parser with its table and reports all differences together.
fn check<T: std::fmt::Display, E: std::fmt::Display>(name: &str, parse: impl Fn(&str) -> Result<T, E>) {
    let mut wrong = Vec::new();
    let rows = table(name);
    for row in &rows {
        let input = row["in"].as_str().unwrap();
        let want = row.get("err").or(row.get("out")).map_or("", |text| text.as_str().unwrap());
        let got = parse(input).map_or_else(|error| error.to_string(), |value| value.to_string());
        let unprintable = name == "quantities" && Quantity::parse(input).is_ok_and(|q| q.as_f64().abs() >= 1e21);
        if unprintable {
            // Upstream has no suffix for this amount and loses the magnitude: see the canonical module.
            assert_eq!(Quantity::parse(&got), Quantity::parse(input));
        } else if got != want {
            wrong.push(format!("{input:?}: got {got:?}, want {want:?}"));
        }
    }
    assert!(!rows.is_empty());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn quantities_print_as_upstream() {
    check("quantities", Quantity::parse);
    check("quantities", |text| Quantity::parse(text).map(|_| Quantity::canonicalize(text).unwrap().into_owned()));
}

#[test]
fn quantities_give_upstreams_values() {
    let mut wrong = Vec::new();
    for row in table("quantities") {
        let Ok(quantity) = Quantity::parse(row["in"].as_str().unwrap()) else { continue };
        let (value, milli) = (row["value"].as_i64().unwrap_or(0), row["milli"].as_i64().unwrap_or(0));
        // Upstream gives 0 or a truncated number beyond 64 bits; Oarlock saturates.
        if i64::try_from((quantity.as_f64() * 1000.0) as i128).is_err() || quantity.milli_value() == i64::MAX {
            continue;
        }
        // Upstream rounds negative big decimals towards +infinity, negative small ones away from zero.
        if quantity.signum() < 0 && (quantity.value() - value).abs() <= 2 && (quantity.milli_value() - milli).abs() <= 2
        {
            continue;
        }
        if (quantity.value(), quantity.milli_value()) != (value, milli) {
            wrong.push(format!("{row}: {} {}", quantity.value(), quantity.milli_value()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn quantities_add_and_compare_as_upstream() {
    let mut wrong = Vec::new();
    for row in table("pairs") {
        let [a, b] = ["A", "B"].map(|name| Quantity::parse(row[name].as_str().unwrap()).unwrap());
        let got = (a.plus(&b).to_string(), a.minus(&b).to_string(), a.cmp(&b) as i64);
        let want = (row["Sum"].as_str().unwrap().into(), row["Diff"].as_str().unwrap().into(), row["Cmp"].as_i64());
        if [a.plus(&b), a.minus(&b), a, b].iter().any(|q| q.as_f64().abs() >= 1e21) {
            continue; // No suffix upstream: see the canonical module.
        }
        if (&got.0, &got.1, Some(got.2)) != (&want.0, &want.1, want.2) {
            wrong.push(format!("{row}: {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn label_selectors_parse_as_upstream() {
    check("labels", LabelSelector::parse);
}

#[test]
fn field_selectors_parse_as_upstream() {
    check("fields", FieldSelector::parse);
}

#[test]
fn times_parse_as_upstream() {
    check("times", Time::parse);
    check("microTimes", MicroTime::parse);
}

#[test]
fn durations_parse_as_go() {
    check("durations", GoDuration::parse);
}

#[test]
fn ages_print_as_upstream() {
    for row in table("ages") {
        let span = GoDuration::from_nanos(row["Nanos"].as_i64().unwrap());
        assert_eq!(human_duration(span), row["Age"].as_str().unwrap(), "{row}");
        assert_eq!(span.to_string(), row["Go"].as_str().unwrap(), "{row}");
    }
}

#[test]
fn quotes_as_go() {
    for row in table("quotes") {
        assert_eq!(quote(row["in"].as_str().unwrap()), row["out"].as_str().unwrap(), "{row}");
    }
}

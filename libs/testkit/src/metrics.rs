//! Metrics as scrapers read them, and upstream's names, labels and bounds, with which those of this project are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

/// A metric of upstream's components.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Upstream {
    /// Name of the family; of a counter with `_total`, if upstream's has it.
    pub name: String,
    /// Type of the family: `counter`, `gauge` or `histogram`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Names of the labels, in order; `le` apart.
    pub labels: Vec<String>,
    /// Upper bounds of a histogram's buckets, without the infinite one.
    #[serde(default)]
    pub buckets: Vec<f64>,
}

#[derive(Deserialize)]
struct Facts {
    metrics: Vec<Upstream>,
}

static FACTS: LazyLock<Facts> =
    LazyLock::new(|| serde_json::from_str(include_str!("../data/upstream-metrics.json")).unwrap());

/// Returns the facts about upstream's metrics that are kept here. The file names their source.
pub fn upstream() -> &'static [Upstream] {
    &FACTS.metrics
}

/// One line of a scrape.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Name of the sample, with the suffix of its kind.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Value.
    pub value: f64,
    /// Trace of the sample's exemplar.
    pub trace: Option<String>,
}

/// Parses the samples of a scrape, in either format.
///
/// # Panics
/// When a line is no sample.
pub fn samples(text: &str) -> Vec<Sample> {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(sample).collect()
}

fn sample(line: &str) -> Sample {
    let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap_or_else(|| panic!("no sample: {line}")));
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest),
        None => (BTreeMap::new(), rest),
    };
    let (value, exemplar) = match rest.trim_start().split_once(" # ") {
        Some((value, exemplar)) => (value, Some(exemplar)),
        None => (rest.trim(), None),
    };
    let trace = exemplar.map(|text| self::labels(text.trim_start_matches('{')).0);
    Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().unwrap_or_else(|_| panic!("no value: {line}")),
        trace: trace.and_then(|mut labels| labels.remove("trace_id")),
    }
}

/// Parses labels up to the closing brace, and returns what follows.
fn labels(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut all = BTreeMap::new();
    while let Some((name, value)) = rest.split_once("=\"") {
        let mut text = String::new();
        let mut chars = value.char_indices();
        let end = loop {
            match chars.next().unwrap_or_else(|| panic!("a label without end: {value}")) {
                (at, '"') => break at,
                (_, '\\') => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, other)) => text.push(other),
                    None => panic!("half an escape: {value}"),
                },
                (_, other) => text.push(other),
            }
        };
        all.insert(name.trim_start_matches(',').to_owned(), text);
        rest = &value[end + 1..];
        if let Some(rest) = rest.strip_prefix('}') {
            return (all, rest);
        }
    }
    (all, rest.trim_start_matches('}'))
}

/// Returns the families of a scrape with their types.
pub fn families(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.rsplit_once(' ')).collect()
}

/// Checks that a text has these lines.
///
/// # Panics
/// When a line is missing.
pub fn has<T: AsRef<str>>(text: &str, lines: impl IntoIterator<Item = T>) {
    for line in lines {
        assert!(text.lines().any(|known| known == line.as_ref()), "{}\n{text}", line.as_ref());
    }
}

/// Checks that these metrics are in an OpenMetrics text, and that type, labels and bounds of each are upstream's.
///
/// # Panics
/// When one is missing or differs.
pub fn check(text: &str, names: &[&str]) {
    let wrong: Vec<String> = names.iter().filter_map(|name| differs(text, name)).collect();
    assert!(wrong.is_empty(), "{}\n{text}", wrong.join("\n"));
}

/// Returns what is missing of a metric of an OpenMetrics text, or differs from upstream's.
pub fn differs(text: &str, name: &str) -> Option<String> {
    let Some(upstream) = upstream().iter().find(|known| known.name == name) else {
        return Some(format!("{name}: upstream's is not recorded"));
    };
    let family = name.strip_suffix("_total").unwrap_or(name);
    let kind = if upstream.kind == "counter" && family == name { "unknown" } else { &upstream.kind };
    match families(text).get(family) {
        Some(found) if *found == kind => {}
        found => return Some(format!("{name}: {found:?}, and not a {kind}")),
    }
    let of_kind: &[&str] = match kind {
        "histogram" => &["_bucket", "_count", "_sum"],
        "counter" => &["_total"],
        _ => &[""],
    };
    let all = samples(text);
    let own: Vec<&Sample> =
        all.iter().filter(|one| one.name.strip_prefix(family).is_some_and(|end| of_kind.contains(&end))).collect();
    if own.is_empty() {
        return Some(format!("{name}: no sample"));
    }
    let mut bounds = BTreeSet::new();
    for one in own {
        let labels: Vec<&str> = one.labels.keys().map(String::as_str).filter(|label| *label != "le").collect();
        if labels != upstream.labels {
            return Some(format!("{name}: labels {labels:?}, and not {:?}", upstream.labels));
        }
        bounds.extend(one.labels.get("le").filter(|bound| *bound != "+Inf").cloned());
    }
    let mut bounds: Vec<f64> = bounds.iter().map(|bound| bound.parse().unwrap()).collect();
    bounds.sort_by(f64::total_cmp);
    let same = bounds.len() == upstream.buckets.len()
        && bounds.iter().zip(&upstream.buckets).all(|(own, theirs)| (own - theirs).abs() <= theirs * 1e-9);
    (!same).then(|| format!("{name}: bounds {bounds:?}, and not {:?}", upstream.buckets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_is_read_and_compared() {
        let text = "# TYPE kubelet_running_containers gauge\nkubelet_running_containers{container_state=\"a\\\"},\\n\"} 2 # {trace_id=\"ab\"} 1.0 7\n";
        let read = samples(text);
        assert_eq!(read[0].labels["container_state"], "a\"},\n");
        assert_eq!((read[0].value, read[0].trace.as_deref()), (2.0, Some("ab")));
        assert_eq!(differs(text, "kubelet_running_containers"), None);
        for (wrong, why) in [
            (text.replace("gauge", "counter"), "not a gauge"),
            (text.replace("container_state", "state"), "labels"),
            (text.lines().next().unwrap().to_owned(), "no sample"),
        ] {
            let found = differs(&wrong, "kubelet_running_containers").unwrap();
            assert!(found.contains(why), "{found}");
        }
        let bounds = "# TYPE workqueue_queue_duration_seconds histogram\nworkqueue_queue_duration_seconds_bucket{le=\"1.0\",name=\"x\"} 1\n";
        assert!(differs(bounds, "workqueue_queue_duration_seconds").unwrap().contains("bounds"));
        assert!(differs(text, "made_up").unwrap().contains("not recorded"));
    }
}

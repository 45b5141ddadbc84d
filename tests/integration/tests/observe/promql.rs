//! The metrics that an expression in PromQL reads. promtool judges whether an expression is valid.

use std::collections::BTreeSet;

/// Words of the language that stand where a metric could.
const WORDS: [&str; 19] = [
    "and",
    "avg",
    "bool",
    "bottomk",
    "count",
    "group",
    "inf",
    "max",
    "min",
    "nan",
    "offset",
    "or",
    "quantile",
    "stddev",
    "stdvar",
    "sum",
    "topk",
    "unless",
    "count_values",
];
/// Words before a list of labels.
const BEFORE_LABELS: [&str; 6] = ["by", "group_left", "group_right", "ignoring", "on", "without"];

/// Returns the names of all metrics.
pub(super) fn metrics(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        if first == '{' || first == '[' || is_quote(first) {
            rest = skip(rest);
        } else if is_start(first) || first.is_ascii_digit() {
            let end = rest.find(|c: char| !is_start(c) && !c.is_ascii_digit()).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let called = after.trim_start().starts_with('(');
            rest = after;
            if BEFORE_LABELS.contains(&word) {
                rest = if called { skip(after.trim_start()) } else { after };
            } else if is_start(first) && !called && !WORDS.contains(&word) {
                found.insert(word.to_owned());
            }
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

fn is_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == ':'
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`')
}

/// Returns what follows a quoted text, or what is in braces, brackets or parentheses.
fn skip(text: &str) -> &str {
    let open = text.chars().next().unwrap();
    let close = match open {
        '{' => '}',
        '[' => ']',
        '(' => ')',
        quote => quote,
    };
    let mut rest = &text[open.len_utf8()..];
    while let Some(next) = rest.chars().next() {
        if next == close {
            return &rest[next.len_utf8()..];
        }
        let is_text = is_quote(open);
        rest = match next {
            '\\' if is_text => rest.get(2..).unwrap_or_default(),
            quote if is_quote(quote) && !is_text => skip(rest),
            other => &rest[other.len_utf8()..],
        };
    }
    rest
}

#[test]
fn the_metrics_of_an_expression_are_found() {
    for (expression, wanted) in [
        ("up", &["up"][..]),
        (r#"sum by (le, job) (rate(a_bucket{le="1",b=~"c}d"}[5m])) / on (x) group_left () b"#, &["a_bucket", "b"]),
        (r#"topk(10, a:b{c="d\"e"} offset 5m) or vector(0) unless on () max(x) > bool 1e3"#, &["a:b", "x"]),
        ("histogram_quantile(0.99, sum without (instance) (rate(y_bucket[$__rate_interval])))", &["y_bucket"]),
        ("1 + 2", &[]),
    ] {
        assert_eq!(metrics(expression).into_iter().collect::<Vec<_>>(), wanted, "{expression}");
    }
}

//! Which tests run together in one process, and which processes start first.

use std::collections::BTreeMap;

/// Expected duration, in seconds, from which a test runs in a process of its own.
const LONG: f64 = 8.0;
/// Other tests of an executable share processes that take about this long. Seconds.
const TOGETHER: f64 = 60.0;
/// Tests of one executable that run in one process, one after the other.
#[derive(Debug, PartialEq)]
pub(super) struct Batch {
    pub(super) tests: Vec<String>,
    /// The expected duration of the batch, in seconds.
    pub(super) seconds: f64,
}

/// Divides the tests of an executable into batches; `expected` returns the expected duration of a test, in seconds.
pub(super) fn batches(tests: &[String], expected: impl Fn(&str) -> f64) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut open = Batch { tests: Vec::new(), seconds: 0.0 };
    for test in tests {
        let seconds = expected(test);
        if seconds >= LONG {
            batches.push(Batch { tests: vec![test.clone()], seconds });
            continue;
        }
        open.tests.push(test.clone());
        open.seconds += seconds;
        if open.seconds >= TOGETHER {
            batches.push(std::mem::replace(&mut open, Batch { tests: Vec::new(), seconds: 0.0 }));
        }
    }
    if !open.tests.is_empty() {
        batches.push(open);
    }
    batches
}

/// The durations of tests that are worth a line, by executable and test.
pub(super) type Durations = BTreeMap<String, BTreeMap<String, f64>>;

/// Keeps of what was measured what a plan needs: tests that take at least a fifth of a second, in tenths of a second.
pub(super) fn worth_keeping(measured: Durations) -> Durations {
    let keep = |tests: BTreeMap<String, f64>| -> BTreeMap<String, f64> {
        let long = tests.into_iter().filter(|(_, seconds)| *seconds >= 0.2);
        long.map(|(name, seconds)| (name, (seconds * 10.0).round() / 10.0)).collect()
    };
    let kept = measured.into_iter().map(|(executable, tests)| (executable, keep(tests)));
    kept.filter(|(_, tests)| !tests.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Batch, batches};

    #[test]
    fn long_tests_are_alone_and_short_ones_together() {
        let tests: Vec<String> = ["a", "long", "b", "half", "other half", "new"].map(str::to_owned).to_vec();
        let expected = |test: &str| match test {
            "long" => 300.0,
            "half" | "other half" => 7.9,
            _ => 0.1,
        };
        let found = batches(&tests, expected);
        let names: Vec<Vec<&str>> =
            found.iter().map(|batch| batch.tests.iter().map(String::as_str).collect()).collect();
        assert_eq!(names, [vec!["long"], vec!["a", "b", "half", "other half", "new"]]);
        assert_eq!(found.first().unwrap(), &Batch { tests: vec!["long".to_owned()], seconds: 300.0 });
        let many: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        assert_eq!(batches(&many, |_| 7.0).len(), 3);
    }
}

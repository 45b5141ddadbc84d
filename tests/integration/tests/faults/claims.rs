//! Reads the log lines of API servers about writes under claims (`oarlock_apiserver::fence=debug`).

use oarlock_check::history::Claim;

/// The log filter with which an API server logs its writes under claims.
pub(crate) const LOG: &str = "info,oarlock_apiserver::fence=debug";

/// The value of a field in a line of a log.
pub(crate) fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let value = line.split_once(&format!(" {name}="))?.1;
    Some(value.split(' ').next().unwrap_or(value).trim_matches('"'))
}

/// Returns every write under a claim in a log.
pub(crate) fn claims(log: &str) -> Vec<Claim> {
    let lines = log.lines().filter(|line| line.contains("oarlock_apiserver::fence: written under a claim"));
    let claim = |line: &str| {
        let number = |name| field(line, name)?.parse().ok();
        let key = field(line, "key")?.trim_start_matches("/registry/").to_owned();
        let (epoch, revision) = (number("epoch")?, number("revision")?);
        Some(Claim { unit: field(line, "unit")?.to_owned(), epoch, revision, key: Some(key) })
    };
    // A killed process may leave an incomplete last line.
    lines.filter_map(claim).collect()
}

#[test]
fn lines_are_read_as_they_are_written() {
    let log = "2026-01-01T00:00:00Z  INFO oarlock: ready\n\
        2026-01-01T00:00:00Z DEBUG oarlock_apiserver::fence: written under a claim unit=controllers-3 epoch=12 key=/registry/pods/a/b revision=40\n\
        2026-01-01T00:00:00Z DEBUG oarlock_apiserver::fence: written under a claim unit=contr";
    let claim = Claim { unit: "controllers-3".to_owned(), epoch: 12, revision: 40, key: Some("pods/a/b".to_owned()) };
    assert_eq!(claims(log), [claim]);
    assert_eq!(field("x controller=\"a\" b=2", "controller"), Some("a"));
}

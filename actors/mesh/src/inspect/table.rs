//! Formats the reports of members as a text table.

use std::fmt::Write as _;
use std::time::Duration;

use oarlock_bus::proto::bus::v1::KindStats;

use super::Report;

const HEAD: [&str; 14] = [
    "ROLE",
    "MEMBER",
    "KIND",
    "SENT",
    "BYTES",
    "HEARD",
    "BYTES",
    "ASK P99",
    "ANSWER P99",
    "OVERLOADS",
    "EXPIRED",
    "LOST",
    "REFUSED",
    "FAILED",
];

/// Formats one line for each member and kind of subject used; for a member that did not answer one line with the reason.
#[must_use]
pub fn table(reports: &[Report]) -> String {
    let mut rows: Vec<(Vec<String>, String)> = vec![(HEAD.map(str::to_owned).to_vec(), String::new())];
    for report in reports {
        let who = vec![report.member.role().to_string(), report.member.name().to_owned()];
        match &report.answer {
            Ok(answer) if answer.kinds.is_empty() => rows.push((who, "nothing yet".to_owned())),
            Ok(answer) => {
                rows.extend(answer.kinds.iter().map(|kind| ([who.clone(), cells(kind)].concat(), String::new())));
            }
            Err(error) => rows.push((who, format!("no answer: {error}; heard {} ago", time(report.heard)))),
        }
    }
    let width = |column: usize| rows.iter().filter_map(|(cells, _)| cells.get(column)).map(String::len).max();
    let widths: Vec<usize> = (0..HEAD.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for (cells, rest) in &rows {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            // A string's formatting does not fail.
            let _ = write!(line, "{cell:width$}   ");
        }
        text.push_str((line + rest).trim_end());
        text.push('\n');
    }
    text
}

fn cells(kind: &KindStats) -> Vec<String> {
    let count = |count: u64| if count == 0 { "-".to_owned() } else { count.to_string() };
    let bytes = |bytes: u64| match bytes {
        0 => "-".to_owned(),
        1..10_240 => format!("{bytes}"),
        10_240..10_485_760 => format!("{}Ki", bytes / 1024),
        _ => format!("{}Mi", bytes / 1_048_576),
    };
    let p99 = |micros: u64| if micros == 0 { "-".to_owned() } else { time(Duration::from_micros(micros)) };
    vec![
        kind.kind.clone(),
        count(kind.sent_messages),
        bytes(kind.sent_bytes),
        count(kind.heard_messages),
        bytes(kind.heard_bytes),
        p99(kind.asked_p99_us),
        p99(kind.answered_p99_us),
        count(kind.overloads),
        count(kind.expired),
        count(kind.lost),
        count(kind.refused + kind.malformed),
        count(kind.failed),
    ]
}

fn time(time: Duration) -> String {
    match time.as_micros() {
        0..10_000 => format!("{}µs", time.as_micros()),
        10_000..10_000_000 => format!("{}ms", time.as_millis()),
        _ => format!("{}s", time.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use oarlock_bus::proto::mesh::v1::InspectAnswer;
    use oarlock_bus::{AskError, Identity, Role};

    use super::*;

    #[test]
    fn everybody_has_a_line_whether_they_answer_or_not() {
        let kind = KindStats {
            kind: "unit".to_owned(),
            sent_messages: 12,
            sent_bytes: 20_480,
            overloads: 3,
            asked_p99_us: 1_500,
            ..KindStats::default()
        };
        let report = |name, answer| Report {
            member: Identity::new(Role::Scheduler, name).unwrap(),
            heard: Duration::from_secs(12),
            answer,
        };
        let text = table(&[
            report("a", Ok(InspectAnswer { kinds: vec![kind], ..InspectAnswer::default() })),
            report("b", Err(AskError::Timeout)),
            report("c", Ok(InspectAnswer::default())),
        ]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[1],
            ["scheduler", "a", "unit", "12", "20Ki", "-", "-", "1500µs", "-", "3", "-", "-", "-", "-"]
        );
        assert_eq!(
            text.lines().nth(2).unwrap().trim_end().split_once("b ").unwrap().1.trim(),
            "no answer: no answer within the budget; heard 12s ago"
        );
        assert_eq!(lines[3], ["scheduler", "c", "nothing", "yet"]);
    }
}

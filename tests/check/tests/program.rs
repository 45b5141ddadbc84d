//! Tests the executable `oarlock-check`: exit codes and output.

use std::process::Command;

use oarlock_check::history::Line;

use crate::build::*;

/// Runs the program on histories in files `0`, `1`, …; returns its exit code, stdout and stderr.
fn run(files: &[String]) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oarlock-check"));
    for (number, text) in files.iter().enumerate() {
        std::fs::write(dir.path().join(number.to_string()), text).unwrap();
        command.arg(number.to_string());
    }
    let output = command.current_dir(dir.path()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect()
}

#[test]
fn a_good_history_in_two_files_ends_with_0_and_a_table() {
    let log = text(&[truth(1), put(1, "m/a", None)]);
    let (code, said, complained) = run(&[log, text(&lines(&[], [create(1, "m/a", (1, 2))]))]);
    assert_eq!((code, complained.as_str()), (Some(0), ""));
    let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(rows[..3], [["rule", "checked", "broken"], ["log", "1", "0"], ["W1", "1", "0"]], "{said}");
    assert_eq!(rows.len(), 11, "{said}");
}

#[test]
fn a_bad_history_ends_with_1_and_its_lines() {
    let log = text(&[truth(1), put(1, "m/a", None)]);
    let calls = text(&lines(&[], [create(1, "m/a", (1, 2)), update(2, "m/a", 1, (3, 4))]));
    let (code, said, _) = run(&[log, calls.clone()]);
    assert_eq!(code, Some(1), "{said}");
    let mut shown = said.lines();
    assert_eq!(shown.next(), Some("W1: acknowledged at 2, which the log does not have"));
    assert_eq!(shown.next(), Some(format!("  1:2: {}", calls.lines().nth(1).unwrap()).as_str()));
}

#[test]
fn what_cannot_be_judged_ends_with_2_and_names_the_line() {
    let good = text(&[truth(9), put(1, "m/a", None)]);
    let cases = [
        ("{".to_owned(), "EOF"),
        (r#"{"line":"record","revision":1,"key":"m/a","colour":"red"}"#.to_owned(), "unknown field `colour`"),
        (r#"{"line":"guess"}"#.to_owned(), "unknown variant `guess`"),
        (text(&[truth(9)]), "a second truth"),
        (text(&lines(&[], [update(2, "m/a", 1, (4, 3))])), "it ends before it begins"),
        (text(&lines(&[], [create(1, "m/a", (4, 5)), create(1, "m/a", (6, 7))])), "tag t1 was used before"),
        (text(&[end(1, 1)]), "of a watch that never began"),
        (text(&[open(1, 10), open(2, 11)]), "a watch that was told 1 last goes on from 2"),
        (text(&[open(1, 10), bookmark(1, 9)]), "back in time"),
        (text(&lines(&[], [page("l", 1, false, 1, &[], (1, 2))])), "pages of a list are missing"),
    ];
    for (bad, why) in cases {
        let (code, said, complained) = run(&[good.clone(), bad.clone()]);
        assert_eq!((code, said.as_str()), (Some(2), ""), "{bad}");
        let line = bad.lines().count();
        assert!(complained.starts_with(&format!("1:{line}: ")) && complained.contains(why), "{bad}: {complained}");
    }
    let (code, _, complained) = run(&[text(&[put(1, "m/a", None)])]);
    assert_eq!((code, complained.as_str()), (Some(2), "0:1: no line says what the truth covers\n"));
}

//! Expressions against recorded answers of cel-go 0.26 with the libraries of a v1.35 kube-apiserver (tests/data/recorded.jsonl): the value, the
//! error, or the compile error with its mark.

use crate::common::{env, run};
use oarlock_cel::Program;
use serde_json::Value;

#[test]
fn answers_as_upstream_did() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in include_str!("data/recorded.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = case["expr"].as_str().unwrap();
        count += 1;
        let want = ["refused", "fails", "value"].iter().find_map(|field| case[field].as_str()).unwrap();
        let have = run(text).unwrap_or_else(|error| error);
        if have != want {
            wrong.push(format!("{text}\n  want {want}\n  have {have}"));
        }
        if let (Ok(program), Some(ty)) = (Program::compile(text, &env()), case["type"].as_str())
            && program.result().to_string() != ty
        {
            wrong.push(format!("{text}\n  want type {ty}\n  have type {}", program.result()));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 450, "only {count} cases were run");
}

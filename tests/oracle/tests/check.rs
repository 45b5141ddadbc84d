//! `oracle check`: a fresh `oarlock` answers as the recorded upstream did, except for the listed differences.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use oarlock_tests_oracle::check::check;
use oarlock_tests_oracle::server::Server;

#[tokio::test]
async fn answers_as_upstream_but_for_the_listed_differences() {
    let server = Server::start(&oarlock_testkit::oarlock()).unwrap();
    let findings = check(&server.kubeconfig, "").await.unwrap();
    println!("{}", findings.counts());
    for case in &findings.unknown {
        println!("{case}\n    {}", findings.different.get(case).unwrap().join("\n    "));
    }
    assert!(findings.unknown.is_empty(), "answers differ from upstream's and are not listed: {:#?}", findings.unknown);
    assert!(findings.stale.is_empty(), "equal now, take them off known-differences.toml: {:#?}", findings.stale);
}

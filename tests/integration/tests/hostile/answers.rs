//! Answers that are too much for whoever gets them: more warnings than headers have room for, and long lists that their client does not read.

use oarlock_runtime::clock;
use oarlock_testkit::Cluster;
use oarlock_testkit::http::{Stream, Who};
use oarlock_testkit::wait::STEP_TIMEOUT;
use serde_json::{Value, json};

use super::{MAPS, PODS, somebody};

/// Requests of one user for an answer of several megabytes: more than its share of the bytes that may wait.
const UNREAD: usize = 12;

#[test]
fn an_object_with_forty_thousand_faults_gets_some_warnings() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let account = json!({"metadata": {"name": "default"}});
    assert!([201, 409].contains(&http.json("POST", "/api/v1/namespaces/default/serviceaccounts", &account).code));
    let ports: Vec<Value> = (0..40_000).map(|_| json!({"containerPort": 1})).collect();
    let pod = json!({
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "ports": ports}]},
    });
    let answer = http.json("POST", &format!("{PODS}?dryRun=All"), &pod);
    assert_eq!(answer.code, 201, "{}", answer.text().get(..1000).unwrap_or_default());
    let warnings: Vec<&str> =
        answer.headers.iter().filter(|(name, _)| name == "warning").map(|(_, value)| value.as_str()).collect();
    assert!(warnings.first().is_some_and(|first| first.contains("duplicate port definition")), "{warnings:?}");
    let length: usize = warnings.iter().map(|warning| warning.len()).sum();
    assert!(length < 16 << 10, "{} warnings of {length} bytes", warnings.len());
}

#[test]
fn answers_that_nobody_reads_are_bounded_and_come_to_an_end() {
    let flags = [
        "--ephemeral",
        "--max-requests-inflight",
        "16",
        "--request-timeout",
        "5s",
        "--disable",
        "scheduler,controller-manager,kubelet",
    ];
    let cluster = Cluster::up(&flags);
    let (admin, somebody) = (cluster.http(Who::Admin), somebody(&cluster));
    let text = "x".repeat(900_000);
    for n in 0..6 {
        let map = json!({"metadata": {"name": format!("map-{n}")}, "data": {"a": text}});
        assert_eq!(admin.json("POST", MAPS, &map).code, 201);
    }
    let waiting = || {
        let metrics = admin.get("/metrics").text();
        let line = metrics.lines().find_map(|line| line.strip_prefix("oarlock_apiserver_unread_answers_bytes "));
        line.map_or(0, |bytes| bytes.parse::<usize>().unwrap())
    };
    let unread: Vec<Stream> = (0..UNREAD).map(|_| somebody.open("GET", MAPS, &[], b"").unwrap()).collect();
    let codes: Vec<u16> = unread.iter().map(|answer| answer.code).collect();
    assert!(codes.iter().all(|code| [200, 429].contains(code)), "{codes:?}");
    // Of 16 MiB, three quarters are for ordinary users and nine MiB for one of them.
    assert_eq!(codes.iter().filter(|code| **code == 200).count(), 9, "{codes:?}");
    assert_eq!(waiting(), 9 << 20);
    assert_eq!(admin.get(MAPS).code, 200, "the masters always pass");
    let deadline = clock::after(STEP_TIMEOUT);
    while waiting() > 0 {
        assert!(!deadline.passed(), "unread answers are kept: {}", waiting());
    }
    let broken = unread.into_iter().filter(|answer| answer.code == 200).map(Stream::finish);
    assert!(broken.map(|read| read.is_ok()).all(|whole| !whole), "an answer that was given up looks whole");
    let whole = somebody.get(MAPS);
    assert_eq!((whole.code, whole.json()["items"].as_array().map(Vec::len)), (200, Some(6)));
}

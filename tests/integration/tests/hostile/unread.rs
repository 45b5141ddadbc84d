//! Watches and small answers that nobody reads, on streams of HTTP/2 whose windows stay closed.

use std::time::Duration;

use oarlock_runtime::clock;
use oarlock_testkit::Cluster;
use oarlock_testkit::http::frames::{INITIAL_WINDOW_SIZE, frame, kind};
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::eventually;
use serde_json::json;

use super::{MAPS, somebody};

/// Time limit of a request, and so the time that a client has at least.
const PATIENCE: Duration = Duration::from_secs(5);
/// Streams that are opened: more than one user's share of the room for small answers.
const STREAMS: usize = 700;
/// Of 4 MiB, three quarters are for ordinary users, three quarters of these for one, and each answer counts as 4 KiB.
const SHARE: usize = 576;

/// Few requests may be in flight, so the room for unread answers is small.
fn cluster() -> Cluster {
    let patience = format!("{}s", PATIENCE.as_secs());
    let flags = ["--ephemeral", "--max-requests-inflight", "16", "--request-timeout", &patience];
    Cluster::up(&[&flags[..], &["--disable", "scheduler,controller-manager,kubelet"]].concat())
}

/// Returns the value of a gauge.
fn gauge(http: &Http, name: &str) -> usize {
    let metrics = http.get("/metrics").text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.map_or(0, |value| value.parse().unwrap())
}

/// Waits until nothing is counted as unread any more.
fn freed(http: &Http, name: &str) {
    eventually("unread answers are dropped", || match gauge(http, name) {
        0 => Ok(()),
        bytes => Err(format!("{bytes} bytes are kept")),
    });
}

#[test]
fn watches_whose_initial_events_nobody_reads_are_bounded_and_come_to_an_end() {
    const UNREAD: &str = "oarlock_apiserver_unread_answers_bytes";
    let cluster = cluster();
    let (admin, somebody) = (cluster.http(Who::Admin), somebody(&cluster));
    let text = "x".repeat(300_000);
    for n in 0..6 {
        let map = json!({"metadata": {"name": format!("map-{n}")}, "data": {"a": text}});
        assert_eq!(admin.json("POST", MAPS, &map).code, 201);
    }
    for query in
        ["watch=1", "watch=1&resourceVersion=0", "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"]
    {
        let mut unread = somebody.frames(&[(INITIAL_WINDOW_SIZE, 0)]).unwrap();
        let begun = (0..12).filter(|_| unread.ask(&format!("{MAPS}?{query}"), &[]).unwrap().1).count();
        // Of 16 seats twelve are for ordinary users and nine for one of them. A watch holds its seat for ten seconds at most, and 512 KiB.
        assert_eq!(begun, 9, "{query}");
        assert_eq!(gauge(&admin, UNREAD), 9 << 19, "{query}");
        assert_eq!(admin.get(&format!("{MAPS}/map-0")).code, 200);
        let ended = unread.end();
        assert!(ended.is_ok(), "{query}: a watch whose events nobody reads goes on: {ended:?}");
        freed(&admin, UNREAD);
    }
    let whole = somebody.get(MAPS);
    assert_eq!((whole.code, whole.json()["items"].as_array().map(Vec::len)), (200, Some(6)));
}

#[test]
fn a_watch_that_is_read_slowly_goes_on() {
    let cluster = cluster();
    let admin = cluster.http(Who::Admin);
    let text = "x".repeat(900_000);
    for n in 0..6 {
        let map = json!({"metadata": {"name": format!("map-{n}")}, "data": {"a": text}});
        assert_eq!(admin.json("POST", MAPS, &map).code, 201);
    }
    let mut slow = admin.frames(&[(INITIAL_WINDOW_SIZE, 0)]).unwrap();
    let (watch, begun) = slow.ask(&format!("{MAPS}?watch=1"), &[]).unwrap();
    assert!(begun);
    let (step, mut read, until) = (96_u32 << 10, 0, clock::after(4 * PATIENCE));
    while !until.passed() {
        for stream in [0, watch] {
            slow.send(&frame(kind::WINDOW_UPDATE, 0, stream, &step.to_be_bytes())).unwrap();
        }
        let wanted = read + usize::try_from(step).unwrap();
        while read < wanted {
            let next = slow.next_frame().unwrap();
            assert_ne!(next.kind, kind::GOAWAY, "cut off after {read} bytes");
            if next.kind == kind::DATA {
                read += next.payload.len();
            }
        }
        // The pace of the client, not a wait: less than half of the bytes that earn more time.
        pace(Duration::from_secs(2));
    }
}

#[test]
fn small_answers_that_nobody_reads_are_bounded_and_come_to_an_end() {
    const UNREAD: &str = "oarlock_apiserver_unread_small_answers_bytes";
    let mut cluster = cluster();
    let (admin, somebody) = (cluster.http(Who::Admin), somebody(&cluster));
    assert_eq!(admin.json("POST", MAPS, &json!({"metadata": {"name": "map"}})).code, 201);
    let path = format!("{MAPS}/map");
    let mut unread = somebody.frames(&[(INITIAL_WINDOW_SIZE, 0)]).unwrap();
    let answered = (0..STREAMS).filter(|_| unread.ask(&path, &[]).unwrap().1).count();
    assert_eq!(answered, SHARE);
    assert_eq!(gauge(&admin, UNREAD), SHARE << 12);
    let refused = somebody.get(&path);
    assert_eq!((refused.code, refused.header("retry-after"), refused.body.len()), (429, Some("1"), 0), "{refused}");
    // A made-up name has no share of its own.
    let impersonated = somebody.send("GET", &path, &[("Impersonate-User", "made-up")], b"");
    assert_eq!(impersonated.code, 429, "{impersonated}");
    for others in [&admin, &cluster.http(Who::Anonymous)] {
        assert_eq!(others.get("/readyz").text(), "ok");
    }
    assert_eq!(somebody.get("/readyz").text(), "ok", "probes are always answered");
    assert_eq!(admin.get(&path).code, 200);
    let ended = unread.end();
    assert!(ended.is_ok(), "a connection whose answers nobody reads goes on: {ended:?}");
    freed(&admin, UNREAD);
    assert_eq!(somebody.get(&path).code, 200);
    assert!(cluster.runs(), "{}", cluster.log_tail());
}

#[test]
fn long_selectors_of_watches_are_counted() {
    let cluster = cluster();
    let (admin, somebody) = (cluster.http(Who::Admin), somebody(&cluster));
    assert_eq!(admin.json("POST", MAPS, &json!({"metadata": {"name": "map"}})).code, 201);
    let selector: Vec<String> = (0..9_000).map(|n| format!("!{n:x}")).collect();
    let path = format!("{MAPS}?watch=1&resourceVersion=1&labelSelector={}", selector.join(","));
    let streams: Vec<_> = (0..40).map(|_| somebody.open("GET", &path, &[], b"").unwrap()).collect();
    let held = streams.iter().filter(|stream| stream.code == 200).count();
    let bytes = gauge(&admin, "oarlock_apiserver_unread_answers_bytes");
    assert!(held > 0 && held < 40 && bytes <= 9 << 20, "{held} watches hold {bytes} bytes");
    assert!(streams.iter().all(|stream| [200, 429].contains(&stream.code)));
    let short = format!("{MAPS}?watch=1&resourceVersion=1&timeoutSeconds=1&labelSelector=a");
    assert_eq!(somebody.get(&short).code, 200, "short ones are not counted");
    let long = "a".repeat(1 << 16);
    assert_eq!(admin.get(&format!("{MAPS}?labelSelector={long}")).code, 414);
}

/// Waits between two reads of a client that reads slowly.
#[expect(clippy::disallowed_methods, reason = "a client of a real server reads in real time")]
fn pace(pause: Duration) {
    std::thread::sleep(pause);
}

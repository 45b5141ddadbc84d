//! Floods of HTTP/2 frames that cost the client next to nothing: streams that are reset at once, settings and pings.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oarlock_testkit::Cluster;
use oarlock_testkit::http::Who;
use oarlock_testkit::http::frames::{Frames, frame, kind};
use serde_json::json;

use super::{MAPS, somebody};

/// Streams of one flood.
const STREAMS: usize = 10_000;
/// Frames of a flood of settings or pings.
const FRAMES: usize = 2_000_000;
/// The error code with which a server ends the connection of a client that asks for too much (RFC 9113, 7).
const ENHANCE_YOUR_CALM: u32 = 0xb;
/// Memory that a flood may cost. Its frames, or their answers, would take several times as much.
const MEMORY: usize = 48 << 20;

/// Returns the memory of a process in bytes.
fn memory(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() << 10
}

/// Runs a flood while other users are served, and returns its result.
fn beside_others<T: Send>(flood: impl FnOnce(Frames) -> T + Send) -> T {
    let mut cluster = Cluster::api_only();
    let (admin, somebody) = (cluster.http(Who::Admin), somebody(&cluster));
    assert_eq!(admin.json("POST", MAPS, &json!({"metadata": {"name": "map"}})).code, 201);
    let path = format!("{MAPS}/map");
    assert_eq!(admin.get(&path).code, 200);
    let before = memory(cluster.id());
    let frames = somebody.patience(Duration::from_secs(10)).frames(&[]).unwrap();
    let done = AtomicBool::new(false);
    let (result, served, most) = std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let (mut served, mut most) = (0, 0);
            while !done.load(Ordering::Relaxed) || served == 0 {
                assert_eq!(admin.get("/readyz").text(), "ok");
                assert_eq!(admin.get(&path).code, 200);
                served += 1;
                most = most.max(memory(cluster.id()));
            }
            (served, most)
        });
        let result = flood(frames);
        done.store(true, Ordering::Relaxed);
        let (served, most) = others.join().unwrap();
        (result, served, most)
    });
    assert!(served > 0 && cluster.runs(), "{}", cluster.log_tail());
    let grown = most.saturating_sub(before);
    assert!(grown < MEMORY, "a flood costs {grown} bytes");
    result
}

#[test]
fn ten_thousand_streams_that_are_reset_at_once_end_their_connection() {
    let code = beside_others(|mut frames| {
        const CANCEL: u32 = 8;
        let mut flood = Vec::new();
        for _ in 0..STREAMS {
            let (stream, head) = frames.get(&format!("{MAPS}/map"), &[]);
            flood.extend_from_slice(&head);
            flood.extend_from_slice(&frame(kind::RST_STREAM, 0, stream, &CANCEL.to_be_bytes()));
        }
        // The connection may be closed before all is sent.
        let sent = flood.chunks(64 << 10).try_for_each(|part| frames.send(part));
        frames.end().map_err(|error| format!("{error}; {sent:?}"))
    });
    assert!(matches!(code, Ok(Some(ENHANCE_YOUR_CALM) | None)), "{code:?}");
}

/// Sends a frame many times and reads nothing. The server answers as long as the answers find room in the buffers of the kernel; then it reads no more, so that
/// the client can send no more, or it ends the connection. Each of these is right, as long as others are served and memory is bounded.
fn unread(mut frames: Frames, one: &[u8]) {
    const ENDS: [ErrorKind; 4] =
        [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    let part = one.repeat(1_000);
    let sent = (0..FRAMES / 1_000).try_for_each(|_| frames.send(&part)).map_err(|error| error.kind());
    assert!(sent.is_ok() || sent.is_err_and(|kind| ENDS.contains(&kind)), "{sent:?}");
}

#[test]
fn pings_whose_answers_nobody_reads_are_not_kept() {
    beside_others(|frames| unread(frames, &frame(kind::PING, 0, 0, &[7; 8])));
}

#[test]
fn settings_whose_answers_nobody_reads_are_not_kept() {
    let settings = [&4_u16.to_be_bytes()[..], &70_000_u32.to_be_bytes()].concat();
    beside_others(|frames| unread(frames, &frame(kind::SETTINGS, 0, 0, &settings)));
}

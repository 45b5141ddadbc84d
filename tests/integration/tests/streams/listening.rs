//! Logs over WebSocket, for browsers, which cannot read a long answer while it arrives.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oarlock_config::Kubeconfig;
use oarlock_testkit::http::{Answer, Http, Who};

use super::Streams;

const LOG: &str = "/api/v1/namespaces/default/pods/web/log";

fn upgraded(http: &Http, path: &str, protocols: &str) -> Answer {
    let mut headers = vec![
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    if !protocols.is_empty() {
        headers.push(("Sec-WebSocket-Protocol", protocols));
    }
    http.open("GET", path, &headers, b"").unwrap().finish().unwrap()
}

/// The messages of a server, as opcodes and what they hold; it sends whole ones, unmasked.
fn messages(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut messages = Vec::new();
    while let [first, length, rest @ ..] = bytes {
        let (length, rest) = match (length, rest) {
            (126, [high, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
            (127, _) => panic!("a message of more than 64 KiB"),
            (length, rest) => (usize::from(*length), rest),
        };
        assert_eq!(first & 0x80, 0x80, "a whole message");
        messages.push((first & 0x0f, rest[..length].to_vec()));
        bytes = &rest[length..];
    }
    messages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn logs_are_read_over_websocket_in_bytes_and_in_base64() {
    let streams = Streams::start().await;
    let endpoint = Kubeconfig::read(&streams.cluster.api.kubeconfig).unwrap().resolve(None).unwrap();
    let http = Http::new(&endpoint, Who::Admin);
    let test = move || {
        let plain = http.get(LOG);
        assert_eq!((plain.code, plain.text().lines().count()), (200, 5), "{plain}");
        for (protocols, chosen) in [
            ("", None),
            ("binary.k8s.io", Some("binary.k8s.io")),
            ("other, base64.binary.k8s.io", Some("base64.binary.k8s.io")),
        ] {
            let answer = upgraded(&http, LOG, protocols);
            assert_eq!((answer.code, answer.header("sec-websocket-protocol")), (101, chosen), "{protocols}");
            let messages = messages(&answer.body);
            let base64 = chosen == Some("base64.binary.k8s.io");
            assert_eq!(messages[0].1, b"", "first an empty one");
            assert_eq!(messages.last().unwrap().0, 8, "last a goodbye");
            let kind = if base64 { 1 } else { 2 };
            let parts = messages.iter().filter(|(opcode, _)| *opcode == kind).map(|(_, part)| part);
            let log: Vec<u8> =
                parts.flat_map(|part| if base64 { STANDARD.decode(part).unwrap() } else { part.clone() }).collect();
            assert_eq!(String::from_utf8(log).unwrap(), plain.text(), "{protocols}");
        }
        assert_eq!(upgraded(&http, LOG, "v5.channel.k8s.io").code, 403);
        let nobody = upgraded(&http, "/api/v1/namespaces/default/pods/nobody/log", "binary.k8s.io");
        assert_eq!(
            (nobody.code, nobody.json()["reason"].as_str()),
            (404, Some("NotFound")),
            "refused before it is upgraded"
        );
    };
    tokio::task::spawn_blocking(test).await.unwrap();
}

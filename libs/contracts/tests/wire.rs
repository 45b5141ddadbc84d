//! Encoded bytes of the external contracts. `data/wire.txt` holds one message a line, its name and its bytes in hexadecimal, as encoded by messages whose field
//! numbers were typed by hand and proven against real etcd and containerd servers before `proto/` described them: a wrong number, type or order of
//! fields in a `.proto` file fails here.

use std::collections::BTreeMap;

use bytes::Bytes;
use oarlock_contracts::{containerd, cri, etcd, health, konnectivity};
use prost::Message;

mod values;

const RECORDED: &str = include_str!("data/wire.txt");
/// Fields that no contract defines: number 1000 as a number, 1001 as a text.
const UNKNOWN: &[u8] = b"\xc0\x3e\x2a\xca\x3e\x03new";

/// A message type by name, with a function that decodes bytes of the type and encodes the result.
struct Sample {
    name: &'static str,
    bytes: Vec<u8>,
    again: fn(&[u8]) -> Vec<u8>,
}

fn sample<M: Message + Default>(name: &'static str, message: &M) -> Sample {
    let again = |bytes: &[u8]| M::decode(bytes).unwrap().encode_to_vec();
    Sample { name, bytes: message.encode_to_vec(), again }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn messages_are_the_recorded_bytes() {
    let recorded: BTreeMap<&str, &str> = RECORDED.lines().filter_map(|line| line.split_once(' ')).collect();
    let samples = values::all();
    assert_eq!(samples.len(), recorded.len(), "as many messages as were recorded");
    for Sample { name, bytes, again } in samples {
        assert_eq!(Some(&hex(&bytes).as_str()), recorded.get(name), "{name}");
        assert_eq!(hex(&again(&bytes)), hex(&bytes), "{name}, decoded");
    }
}

#[test]
fn unknown_fields_are_skipped() {
    for Sample { name, bytes, again } in values::all() {
        assert_eq!(hex(&again(&[&bytes, UNKNOWN].concat())), hex(&bytes), "{name}");
        assert_eq!(hex(&again(&[UNKNOWN, &bytes].concat())), hex(&bytes), "{name}");
    }
}

#[test]
fn what_is_left_out_is_the_default() {
    for Sample { name, again, .. } in values::all() {
        assert_eq!(hex(&again(b"")), "", "{name}");
    }
    let answer = health::HealthCheckResponse::decode(&b""[..]).unwrap();
    assert_eq!(answer.status(), health::health_check_response::ServingStatus::Unknown);
    let sandbox = cri::PodSandboxStatus::decode(&b"\x0a\x01x"[..]).unwrap();
    assert_eq!((sandbox.state(), sandbox.network), (cri::PodSandboxState::SandboxReady, None));
}

#[test]
fn values_outside_an_enumeration_are_kept() {
    // Later versions of a contract define more of them.
    let container = cri::Container::decode(&b"\x30\x63"[..]).unwrap();
    assert_eq!((container.state, cri::ContainerState::try_from(container.state).is_err()), (99, true));
    assert_eq!(container.encode_to_vec(), b"\x30\x63");
}

fn labels(key: &str) -> BTreeMap<String, String> {
    [(key.to_owned(), "v".to_owned()), ("a".to_owned(), String::new())].into()
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

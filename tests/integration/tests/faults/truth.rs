//! Reads the log from the store, without the server and its View.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use oarlock_check::placement;
use oarlock_pki::{KeyPair, parse_chain, tls};
use oarlock_storage::embedded::Options;
use oarlock_storage::{EmbeddedLog, Fatal, Log as _, Record, Revision};
use oarlock_testkit::Secured;
use oarlock_testkit::history::{Recorder, body, tag};
use oarlock_testkit::wait::STEP_TIMEOUT;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::{Value, json};

/// The prefix of keys in upstream's layout.
const ROOT: &str = "/registry/";

/// A source of the log other than the server.
pub(crate) trait Truth {
    /// Records every record of the log, and what they cover; `own` are the prefixes to which only recorded clients wrote.
    fn record(&self, recorder: &Recorder, own: &[String]);
}

/// The directory of an embedded store whose process has ended. A copy is read, so the directory does not change.
pub(crate) struct EmbeddedStore(pub PathBuf);

impl EmbeddedStore {
    /// Shows every record of the log; where it begins and ends.
    pub(crate) fn records(&self, mut see: impl FnMut(&Record) + Send) -> (u64, u64) {
        let copy = tempfile::tempdir().unwrap();
        let file = copy.path().join("oarlock.redb");
        std::fs::copy(self.0.join("oarlock.redb"), &file).unwrap();
        let options = Options { reserve_bytes: 0, ..Options::new(Arc::new(|fatal: &Fatal| panic!("{fatal}"))) };
        let log = EmbeddedLog::open(&file, &options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let loaded = runtime.block_on(log.load(&mut |piece| {
            if let Some(record) = piece.record() {
                see(&record);
            }
        }));
        let loaded = loaded.unwrap();
        (loaded.floor.get(), loaded.revision.get())
    }
}

impl Truth for EmbeddedStore {
    fn record(&self, recorder: &Recorder, own: &[String]) {
        let (after, through) = self.records(|record| {
            let (revision, prev) = (record.revision.get(), record.prev.map(Revision::get));
            recorder.write(&line(record.key.as_str(), revision, prev, record.value.as_deref()));
        });
        recorder.write(&json!({"line": "truth", "after": after, "through": through, "own": own}));
        recorder.write(&json!({"line": "floor", "revision": after}));
    }
}

/// One write. Keys omit the common prefix.
pub(crate) struct Change {
    pub key: String,
    pub revision: u64,
    /// The replaced revision.
    pub prev: Option<u64>,
    /// The written value; `None` for a delete.
    pub value: Option<Vec<u8>>,
}

/// Returns the line with which placements are judged, for a write of a node, a pod or a namespace.
pub(crate) fn placed(key: &str, revision: u64, value: Option<&[u8]>) -> Option<placement::Line> {
    let key = key.strip_prefix(ROOT).unwrap_or(key);
    let key = key.strip_prefix("minions/").map_or_else(|| key.to_owned(), |name| format!("nodes/{name}"));
    let object = |value| serde_json::from_slice(value).unwrap();
    let is_of_it = key.starts_with("pods/") || key.starts_with("nodes/");
    is_of_it.then(|| placement::Line { revision, key, object: value.map(object) })
}

/// A stream, in the clear or not.
trait Both: Read + Write + Send {}
impl<T: Read + Write + Send> Both for T {}

/// An etcd cluster, watched from its beginning through the gateway of the member with this client port.
pub(crate) struct EtcdHistory {
    port: u16,
    /// The client's TLS configuration; `None` without TLS.
    tls: Option<Arc<ClientConfig>>,
    /// The events received so far, when the log is read while it is written.
    live: Option<Receiver<Value>>,
    kept: RefCell<Kept>,
}

/// The part of the log that was read so far.
#[derive(Default)]
struct Kept {
    changes: Vec<Change>,
    through: u64,
    /// For each existing key, the revision of its last write.
    there: BTreeMap<String, u64>,
}

impl Kept {
    fn add(&mut self, events: &[Value]) {
        for event in events {
            let (kv, gone) = (&event["kv"], event["type"] == "DELETE");
            let (key, revision) = (String::from_utf8(bytes(&kv["key"])).unwrap(), number(&kv["mod_revision"]));
            let prev = if gone { self.there.remove(&key) } else { self.there.insert(key.clone(), revision) };
            if let Some(key) = key.strip_prefix(ROOT) {
                let value = (!gone).then(|| bytes(&kv["value"]));
                self.changes.push(Change { key: key.to_owned(), revision, prev, value });
            }
            self.through = revision;
        }
    }
}

impl EtcdHistory {
    /// Reads it when it is asked for.
    pub(crate) fn of(port: u16) -> Self {
        Self { port, tls: None, live: None, kept: RefCell::default() }
    }

    /// Reads the log of a cluster with TLS, with this client's certificate.
    pub(crate) fn secured(port: u16, client: &Secured) -> Self {
        let identity = (parse_chain(&client.certificate).unwrap(), KeyPair::from_pem(&client.key).unwrap().to_rustls());
        let trust = tls::ServerTrust::Authorities(parse_chain(&client.authority).unwrap());
        let mut config = tls::client_config(trust, Some(identity)).unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { tls: Some(Arc::new(config)), ..Self::of(port) }
    }

    /// Reads the log from now on, because it may be compacted before the end.
    pub(crate) fn live(port: u16) -> Self {
        let (sender, live) = mpsc::channel();
        let answers = Self::of(port).answers(1);
        let read = move || answers.map(|answer| sender.send(answer)).all(|sent| sent.is_ok());
        std::thread::Builder::new().name("history of etcd".to_owned()).spawn(read).unwrap();
        Self { live: Some(live), ..Self::of(port) }
    }

    /// Shows every write; the revision up to which it was read.
    pub(crate) fn changes(&self, see: impl FnMut(&Change)) -> u64 {
        self.read_on();
        let kept = self.kept.borrow();
        kept.changes.iter().for_each(see);
        kept.through
    }

    /// Reads what was written since the last time: what is longer ago than servers keep history is known by then.
    pub(crate) fn read_on(&self) {
        let mut kept = self.kept.borrow_mut();
        let now = self.post("/v3/kv/range", &json!({"key": BASE64.encode([0]), "limit": 1})).next().unwrap();
        let through = number(&now["header"]["revision"]);
        // Every revision has an event, so the event of the last revision arrives.
        let mut answers: Box<dyn Iterator<Item = Value>> = match &self.live {
            Some(live) => Box::new(live.iter()),
            None => Box::new(self.answers(kept.through + 1)),
        };
        // The servers are running and may have written further revisions.
        while kept.through < through {
            let answer = answers.next().unwrap_or_else(|| panic!("the history ends before {through}"));
            assert!(answer["result"]["canceled"].is_null(), "the beginning is gone: {answer}");
            kept.add(answer["result"]["events"].as_array().map_or(&[], Vec::as_slice));
        }
    }

    /// Everything from a revision on.
    fn answers(&self, from: u64) -> impl Iterator<Item = Value> + use<> {
        let all = BASE64.encode([0]);
        let everything = json!({"key": all, "range_end": all, "start_revision": from.to_string()});
        self.post("/v3/watch", &json!({"create_request": everything}))
    }

    /// Posts, and reads the answer line by line. HTTP 1.0, so that the stream comes as it is.
    fn post(&self, path: &str, body: &Value) -> impl Iterator<Item = Value> + use<> {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
        let mut stream: Box<dyn Both> = match &self.tls {
            None => Box::new(socket),
            Some(config) => {
                let name = ServerName::try_from("127.0.0.1").unwrap();
                Box::new(StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), socket))
            }
        };
        let body = body.to_string();
        write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        let status = lines.next().unwrap();
        assert!(status.ends_with("200 OK"), "{path}: {status}");
        lines.skip_while(|line| !line.is_empty()).skip(1).map(|line| serde_json::from_str(&line).unwrap())
    }
}

impl Truth for EtcdHistory {
    fn record(&self, recorder: &Recorder, own: &[String]) {
        let through = self.changes(|Change { key, revision, prev, value }| {
            recorder.write(&line(key, *revision, *prev, value.as_deref()));
        });
        recorder.write(&json!({"line": "truth", "after": 0, "through": through, "own": own}));
    }
}

/// The gateway's numbers are texts.
fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no number: {value}"))
}

fn bytes(value: &Value) -> Vec<u8> {
    BASE64.decode(value.as_str().unwrap_or_default()).unwrap()
}

/// Returns one record; `value` is `None` for a delete.
fn line(key: &str, revision: u64, prev: Option<u64>, value: Option<&[u8]>) -> Value {
    let key = key.strip_prefix(ROOT).unwrap_or(key);
    let mut line = json!({"line": "record", "revision": revision, "key": key, "prev": prev});
    if let Some(value) = value {
        let object: Value =
            serde_json::from_slice(value).unwrap_or_else(|error| panic!("{key} at {revision}: {error}"));
        line["body"] = json!(body(&object));
        line["tag"] = json!(tag(&object));
        if let Some(labels) = object["metadata"]["labels"].as_object() {
            line["labels"] = json!(labels);
        }
    }
    line
}

//! The history of clients and of the log in the checker's format (`docs/operations/histories.md`), on the universe's clock.

use std::collections::BTreeMap;

use oarlock_check::History;
use oarlock_check::history::{Line, Record};
use oarlock_runtime::{Instant, clock, trace};
use parking_lot::Mutex;

/// A recorder of histories. Clones share the history.
#[derive(Debug)]
pub(crate) struct Recorder {
    began: Instant,
    now: Mutex<u64>,
    lines: Mutex<Vec<Line>>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { began: clock::now(), now: Mutex::default(), lines: Mutex::default() }
    }

    /// Returns the time in nanoseconds. Virtual time does not advance while a task can run, so each call returns at least one more than the call
    /// before: events are ordered by their time.
    pub(crate) fn now(&self) -> u64 {
        let passed = u64::try_from(self.began.elapsed().as_nanos()).unwrap();
        let mut now = self.now.lock();
        *now = passed.max(*now + 1);
        *now
    }

    /// Appends a line to the history and to the universe's trace, so that equal traces mean equal histories.
    pub(crate) fn write(&self, line: Line) {
        trace::record("line", &serde_json::to_string(&line).unwrap(), 0);
        self.lines.lock().push(line);
    }

    /// Returns the recorded history.
    pub(crate) fn read(&self) -> History {
        History::from_lines(&self.lines.lock()).unwrap_or_else(|malformed| panic!("{malformed}"))
    }

    /// Returns the revisions of the writes of each key with this prefix, by the rest of the key.
    pub(crate) fn writes(&self, prefix: &str) -> BTreeMap<String, Vec<u64>> {
        let mut writes = BTreeMap::<String, Vec<u64>>::new();
        for line in self.lines.lock().iter() {
            if let Line::Record(Record { key, revision, .. }) = line
                && let Some(name) = key.strip_prefix(prefix)
            {
                writes.entry(name.to_owned()).or_default().push(*revision);
            }
        }
        writes
    }

    /// Writes the history to a file, for inspection; returns the file's path.
    pub(crate) fn keep(&self, seed: u64) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("oarlock-sim-{seed}.jsonl"));
        let lines: Vec<String> = self.lines.lock().iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        path
    }
}

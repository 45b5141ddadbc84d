//! The history of clients and of the log in the checker's format (`docs/operations/histories.md`), on the universe's clock.

use std::collections::BTreeMap;

use oarlock_check::History;
use oarlock_check::history::{Line, Record};
use oarlock_runtime::{Instant, clock, trace};
use parking_lot::Mutex;

/// A history in the making.
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

    /// Nanoseconds. Virtual time stands still while anybody can run, so each look is one later at least: what happened first comes first.
    pub(crate) fn now(&self) -> u64 {
        let passed = u64::try_from(self.began.elapsed().as_nanos()).unwrap();
        let mut now = self.now.lock();
        *now = passed.max(*now + 1);
        *now
    }

    /// Appends a line; the universe's record has it too, so that equal hashes are equal histories.
    pub(crate) fn write(&self, line: Line) {
        trace::record("line", &serde_json::to_string(&line).unwrap(), 0);
        self.lines.lock().push(line);
    }

    /// Everything written.
    pub(crate) fn read(&self) -> History {
        History::from_lines(&self.lines.lock()).unwrap_or_else(|malformed| panic!("{malformed}"))
    }

    /// The revisions at which each key that begins so was written, by the rest of the key.
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

    /// Leaves everything written in a file, for a closer look.
    pub(crate) fn keep(&self, seed: u64) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("oarlock-sim-{seed}.jsonl"));
        let lines: Vec<String> = self.lines.lock().iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        path
    }
}

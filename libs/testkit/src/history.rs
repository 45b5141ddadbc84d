//! Records what clients observe, for `oarlock-check` (`docs/operations/histories.md`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Annotation by which a recorded write marks its object.
pub const WRITE_ANNOTATION: &str = "oarlock.dev/write";

/// A file of JSON lines with a common clock for all its writers.
#[derive(Debug)]
pub struct Recorder {
    started: Instant,
    path: PathBuf,
    file: Mutex<BufWriter<File>>,
}

impl Recorder {
    /// Creates the file. The file is kept: after a failed check it is the evidence.
    ///
    /// # Panics
    /// When the file cannot be created.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "real clients are timed in real time")]
    pub fn new(path: &Path) -> Self {
        let file = File::create(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { started: Instant::now(), path: path.to_owned(), file: Mutex::new(BufWriter::new(file)) }
    }

    /// Returns the nanoseconds since the recorder was created.
    #[must_use]
    pub fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Appends a line.
    ///
    /// # Panics
    /// When the line cannot be written: an incomplete history proves nothing.
    pub fn write(&self, line: &impl Serialize) {
        let mut text = serde_json::to_vec(line).expect("a line is JSON");
        text.push(b'\n');
        self.file.lock().write_all(&text).expect("the history is written");
    }

    /// Returns the path of the file after flushing everything written so far.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn flushed(&self) -> &Path {
        self.file.lock().flush().expect("the history is written");
        &self.path
    }
}

/// Hashes an object without the parts that depend on the request: its revision and its kind (list items have none).
#[must_use]
pub fn body(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|name, _| name != "kind" && name != "apiVersion");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| name != "resourceVersion");
    }
    let digest = Sha256::digest(sorted(&object).to_string());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the value with fields in alphabetical order, whatever order the JSON library keeps.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().collect();
            fields.into_iter().map(|(name, value)| (name.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// Returns the key of an object of the resource `plural`: `plural/namespace/name`.
#[must_use]
pub fn key(plural: &str, object: &Value) -> String {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    format!("{plural}/{}/{}", text("namespace"), text("name"))
}

/// Returns the mark of the write that produced this object.
#[must_use]
pub fn tag(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][WRITE_ANNOTATION].as_str()
}

/// Returns the revision of an object or a list.
///
/// # Panics
/// When the revision is missing: neither Oarlock nor upstream answers without one.
#[must_use]
pub fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no revision: {object}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Recorder, body, tag};

    #[test]
    fn a_body_is_what_was_written_and_not_how_it_was_asked_for() {
        let one = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "7"}, "data": {"x": "1", "a": "2"}});
        let other = json!({"data": {"a": "2", "x": "1"}, "metadata": {"resourceVersion": "9", "name": "a"}});
        assert_eq!(body(&one), body(&other));
        for changed in [
            json!({"data": {"a": "2"}, "metadata": {"name": "a"}}),
            json!({"data": {"a": "2", "x": "1"}, "metadata": {"name": "b"}}),
        ] {
            assert_ne!(body(&one), body(&changed));
        }
        assert_eq!(tag(&json!({"metadata": {"annotations": {"oarlock.dev/write": "c0-1"}}})), Some("c0-1"));
        assert_eq!(tag(&one), None);
    }

    #[test]
    fn lines_come_one_after_the_other_on_one_clock() {
        let dir = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(&dir.path().join("history.jsonl"));
        let first = recorder.now();
        recorder.write(&json!({"a": 1}));
        recorder.write(&json!({"b": "line\nbreak"}));
        assert!(recorder.now() > first);
        let text = std::fs::read_to_string(recorder.flushed()).unwrap();
        assert_eq!(text, "{\"a\":1}\n{\"b\":\"line\\nbreak\"}\n");
    }
}

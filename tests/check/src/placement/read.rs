//! A log of nodes, pods and namespaces: one JSON object per line.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::read::Malformed;

/// One written object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The revision of the write. A key whose first line has a node either existed before the log or was created with a node.
    pub revision: u64,
    /// `pods/<namespace>/<name>`, `nodes/<name>` or `namespaces/<name>`.
    pub key: String,
    /// The object; `None` for a deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Value>,
}

/// The written objects, in order.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub(super) lines: Vec<Line>,
}

impl Log {
    /// Makes a log of these lines, in any order. Of several lines with one key and revision the first counts.
    #[must_use]
    pub fn of(mut lines: Vec<Line>) -> Self {
        lines.sort_by(|one, other| (one.revision, &one.key).cmp(&(other.revision, &other.key)));
        lines.dedup_by(|later, earlier| (later.revision, &later.key) == (earlier.revision, &earlier.key));
        Self { lines }
    }

    /// Reads files, which together are one log.
    ///
    /// # Errors
    /// A file that cannot be read, and the first malformed line.
    pub fn read(files: &[impl AsRef<Path>]) -> Result<Self, Malformed> {
        let mut lines = Vec::new();
        for file in files {
            let file = file.as_ref();
            let wrong = |line, why| Malformed { file: file.display().to_string(), line, why };
            let text = std::fs::read_to_string(file).map_err(|error| wrong(0, error.to_string()))?;
            for (number, text) in text.lines().enumerate() {
                let line: Line = serde_json::from_str(text).map_err(|error| wrong(number + 1, error.to_string()))?;
                let known = ["pods/", "nodes/", "namespaces/"].iter().any(|prefix| line.key.starts_with(prefix));
                if !known {
                    return Err(wrong(number + 1, format!("{} is no pod, node or namespace", line.key)));
                }
                lines.push(line);
            }
        }
        Ok(Self::of(lines))
    }

    /// Returns the lines, in order.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    /// The number of lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether the log is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

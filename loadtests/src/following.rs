//! A watch that is reopened where it ended, because upstream ends watches that lag.

use anyhow::ensure;
use bytes::Bytes;

use crate::connection::{Connection, Stream};

const REVISION: &[u8] = br#""resourceVersion":""#;
/// A watch that has ended this often is given up.
const MAX_REOPENS: usize = 1000;

/// A watch of a path that has a query, from a revision on.
pub(crate) struct Following {
    connection: Connection,
    path: String,
    revision: String,
    stream: Stream,
    /// The beginning of a line whose end has not arrived.
    begun: Vec<u8>,
    cut: usize,
}

impl Following {
    /// Opens a watch; without a revision the watch begins with the present objects.
    ///
    /// # Errors
    /// When the watch is refused.
    pub(crate) async fn open(mut connection: Connection, path: String, revision: String) -> anyhow::Result<Self> {
        let stream = connection.stream(&from(&path, &revision)).await?;
        Ok(Self { connection, path, revision, stream, begun: Vec::new(), cut: 0 })
    }

    /// How often the watch was reopened.
    pub(crate) fn cut(&self) -> usize {
        self.cut
    }

    /// The next lines, whole ones.
    ///
    /// # Errors
    /// When the watch cannot be reopened.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Bytes> {
        loop {
            if let Ok(Some(part)) = self.stream.next().await {
                let Some(end) = memchr::memrchr(b'\n', &part) else {
                    self.begun.extend_from_slice(&part);
                    continue;
                };
                let (lines, rest) = part.split_at(end + 1);
                self.begun.extend_from_slice(lines);
                let lines = Bytes::from(std::mem::replace(&mut self.begun, rest.to_vec()));
                if let Some(revision) = last_revision(&lines) {
                    self.revision = revision;
                }
                return Ok(lines);
            }
            self.begun.clear();
            self.cut += 1;
            ensure!(self.cut < MAX_REOPENS, "the watch of {} ended {MAX_REOPENS} times", self.path);
            self.stream = self.connection.stream(&from(&self.path, &self.revision)).await?;
        }
    }
}

fn from(path: &str, revision: &str) -> String {
    if revision.is_empty() { path.to_owned() } else { format!("{path}&resourceVersion={revision}") }
}

fn last_revision(part: &[u8]) -> Option<String> {
    let at = memchr::memmem::rfind(part, REVISION)? + REVISION.len();
    let rest = part.get(at..)?;
    let digits = rest.get(..memchr::memchr(b'"', rest)?)?;
    String::from_utf8(digits.to_vec()).ok()
}

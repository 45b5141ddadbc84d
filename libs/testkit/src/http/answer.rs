//! HTTP answers: a head, then a body with a length, in chunks, or up to the end of the connection.

use std::io::{self, BufRead, BufReader, Read};

use serde_json::Value;

use super::Connection;

/// A complete answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status code.
    pub code: u16,
    /// Headers in order; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns the first header of a name (lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON.
    ///
    /// # Panics
    /// When the body is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("no JSON: {error}\n{self}"))
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.code, self.text())
    }
}

/// An answer whose body is still arriving.
pub struct Stream {
    /// Status code.
    pub code: u16,
    /// Headers in order; names in lower case.
    pub headers: Vec<(String, String)>,
    body: BufReader<Body>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("code", &self.code).finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn read_head(mut from: BufReader<Connection>) -> io::Result<Self> {
        let status = line(&mut from)?;
        let code = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let code = code.ok_or_else(|| wrong(format!("no status line: {status:?}")))?;
        let mut headers = Vec::new();
        loop {
            let text = line(&mut from)?;
            let Some((name, value)) = text.split_once(':') else {
                if text.is_empty() {
                    break;
                }
                return Err(wrong(format!("no header: {text:?}")));
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let find = |name: &str| headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        let left = if find("transfer-encoding") == Some("chunked") {
            Remaining::Chunk(0)
        } else if let Some(length) = find("content-length") {
            Remaining::Bytes(length.parse().map_err(|_| wrong(format!("length {length:?}")))?)
        } else if matches!(code, 204 | 304) {
            Remaining::Bytes(0)
        } else {
            Remaining::ToTheEnd
        };
        Ok(Self { code, headers, body: BufReader::new(Body { from, left }) })
    }

    /// Reads the rest of the answer.
    ///
    /// # Errors
    /// When the connection breaks before the answer is complete.
    pub fn finish(self) -> io::Result<Answer> {
        Ok(self.read_body()?.0)
    }

    /// Reads the rest of the answer, and returns the connection if the server keeps it open for further requests.
    ///
    /// # Errors
    /// When the connection breaks before the answer is complete.
    pub(super) fn finish_and_keep(self) -> io::Result<(Answer, Option<BufReader<Connection>>)> {
        let (answer, Body { mut from, left }) = self.read_body()?;
        if matches!(left, Remaining::ToTheEnd) || answer.header("connection") == Some("close") {
            return Ok((answer, None));
        }
        if matches!(left, Remaining::Nothing) {
            // The empty line after the last chunk.
            line(&mut from)?;
        }
        Ok((answer, Some(from)))
    }

    fn read_body(mut self) -> io::Result<(Answer, Body)> {
        let mut body = Vec::new();
        self.body.read_to_end(&mut body)?;
        Ok((Answer { code: self.code, headers: self.headers, body }, self.body.into_inner()))
    }

    /// Reads the next event of a watch; `None` at its end.
    ///
    /// # Panics
    /// When the stream breaks, is silent for too long, or holds no JSON.
    pub fn event(&mut self) -> Option<Value> {
        self.try_event().unwrap_or_else(|error| panic!("a watch broke: {error}"))
    }

    /// Reads the next event of a watch that may break; `None` at its end.
    ///
    /// # Errors
    /// When the stream breaks, is silent for too long, or holds no JSON.
    pub fn try_event(&mut self) -> io::Result<Option<Value>> {
        let mut text = String::new();
        if self.body.read_line(&mut text)? == 0 {
            return Ok(None);
        }
        serde_json::from_str(&text).map(Some).map_err(|error| wrong(format!("no JSON: {error}: {text}")))
    }
}

fn line(from: &mut BufReader<Connection>) -> io::Result<String> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What is left of a body to read.
enum Remaining {
    Bytes(u64),
    /// Bytes left of the current chunk.
    Chunk(u64),
    ToTheEnd,
    Nothing,
}

/// Reader of a body according to its framing.
struct Body {
    from: BufReader<Connection>,
    left: Remaining,
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Remaining::Chunk(0) = self.left {
            let size = line(&mut self.from)?;
            let size = u64::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16);
            match size.map_err(|_| wrong("no chunk size".to_owned()))? {
                0 => self.left = Remaining::Nothing,
                size => self.left = Remaining::Chunk(size),
            }
        }
        let most = match self.left {
            // A read for no bytes would wait for what the server sends next.
            Remaining::Nothing | Remaining::Bytes(0) => return Ok(0),
            Remaining::Bytes(left) | Remaining::Chunk(left) => left,
            Remaining::ToTheEnd => u64::MAX,
        };
        let room = usize::try_from(most).map_or(into.len(), |most| most.min(into.len()));
        let read = self.from.read(&mut into[..room])?;
        let gone = read as u64;
        match &mut self.left {
            Remaining::Bytes(left) | Remaining::Chunk(left) if read == 0 && *left > 0 && room > 0 => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Remaining::Bytes(left) => *left -= gone,
            Remaining::Chunk(left) => {
                *left -= gone;
                if *left == 0 {
                    // The line break after the chunk.
                    line(&mut self.from)?;
                }
            }
            Remaining::ToTheEnd | Remaining::Nothing => {}
        }
        Ok(read)
    }
}

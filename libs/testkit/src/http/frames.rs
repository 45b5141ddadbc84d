//! A client that writes HTTP/2 frame by frame (RFC 9113), so that a test can do what no client library does.

use std::io::{self, Read as _, Write as _};

use super::{Connection, Http};
use crate::wait::{Deadline, STEP_TIMEOUT};

/// Types of frames.
pub mod kind {
    /// Content of a message.
    pub const DATA: u8 = 0;
    /// Head of a message.
    pub const HEADERS: u8 = 1;
    /// End of a stream by an error.
    pub const RST_STREAM: u8 = 3;
    /// Settings of a side, or their acknowledgement.
    pub const SETTINGS: u8 = 4;
    /// A ping, or its acknowledgement.
    pub const PING: u8 = 6;
    /// End of a connection.
    pub const GOAWAY: u8 = 7;
    /// More bytes that the other side may send.
    pub const WINDOW_UPDATE: u8 = 8;
}

/// The setting for the number of bytes that the server may send on a new stream.
pub const INITIAL_WINDOW_SIZE: u16 = 4;

/// A frame from the server.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its type ([`kind`]).
    pub kind: u8,
    /// Its stream; 0 for the connection.
    pub stream: u32,
    /// Its content.
    pub payload: Vec<u8>,
}

/// An HTTP/2 connection.
pub struct Frames {
    connection: Connection,
    authority: String,
    token: Option<String>,
    next_stream: u32,
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// Returns the bytes of a frame.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a payload of 16 MiB at most").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Appends a text in the form of HPACK (RFC 7541, 5.2), without Huffman's code.
fn text(out: &mut Vec<u8>, text: &str) {
    let length = text.len();
    if length < 127 {
        out.push(u8::try_from(length).expect("short"));
    } else {
        out.push(127);
        let mut rest = length - 127;
        while rest >= 128 {
            out.push(u8::try_from(rest % 128 + 128).expect("seven bits and one"));
            rest /= 128;
        }
        out.push(u8::try_from(rest).expect("seven bits"));
    }
    out.extend_from_slice(text.as_bytes());
}

impl Http {
    /// Opens an HTTP/2 connection with these settings of the client.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn frames(&self, settings: &[(u16, u32)]) -> io::Result<Frames> {
        let mut connection = self.connect(b"h2")?;
        let settings: Vec<u8> =
            settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
        connection.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
        connection.0.write_all(&frame(kind::SETTINGS, 0, 0, &settings))?;
        let (authority, token) = (self.authority.clone(), self.token.clone());
        Ok(Frames { connection, authority, token, next_stream: 1 })
    }
}

impl Frames {
    /// Returns the frame that asks for a path on a new stream, and the stream.
    #[must_use]
    pub fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> (u32, Vec<u8>) {
        // `:method: GET` and `:scheme: https` are entries of the static table; the other names are given by their places in it, or as texts.
        let mut block = vec![0x82, 0x87, 0x04];
        text(&mut block, path);
        block.push(0x01);
        text(&mut block, &self.authority);
        if let Some(token) = &self.token {
            block.extend_from_slice(&[0x1f, 0x08]);
            text(&mut block, &format!("Bearer {token}"));
        }
        for (name, value) in headers {
            block.push(0x00);
            text(&mut block, name);
            text(&mut block, value);
        }
        let stream = self.next_stream;
        self.next_stream += 2;
        const END_STREAM: u8 = 0x1;
        const END_HEADERS: u8 = 0x4;
        (stream, frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &block))
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// When the connection is closed, or takes no bytes for too long.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.0.write_all(bytes)?;
        self.connection.0.flush()
    }

    /// Asks for a path and returns the stream, and whether the answer is 200, as soon as its head is there. Frames before it are lost.
    ///
    /// # Errors
    /// When the connection is closed.
    pub fn ask(&mut self, path: &str, headers: &[(&str, &str)]) -> io::Result<(u32, bool)> {
        let (stream, head) = self.get(path, headers);
        self.send(&head)?;
        loop {
            let frame = self.next_frame()?;
            if frame.kind == kind::HEADERS && frame.stream == stream {
                // The entry `:status: 200` of the static table; the status comes first.
                return Ok((stream, frame.payload.first() == Some(&0x88)));
            }
            if frame.kind == kind::GOAWAY {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
    }

    /// Reads the next frame. A ping of the server is answered and left out: a client that is silent is another test.
    ///
    /// # Errors
    /// When the connection is closed, or silent for too long.
    pub fn next_frame(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.read()? {
                return Ok(frame);
            }
        }
    }

    /// Reads the next frame; `None` after a ping, which is answered.
    fn read(&mut self) -> io::Result<Option<Frame>> {
        const ACKNOWLEDGED: u8 = 0x1;
        let mut head = [0; 9];
        self.connection.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or_default()];
        self.connection.read_exact(&mut payload)?;
        if kind == kind::PING && flags & ACKNOWLEDGED == 0 {
            self.send(&frame(kind::PING, ACKNOWLEDGED, 0, &payload))?;
            return Ok(None);
        }
        Ok(Some(Frame { kind, stream: u32::from_be_bytes(stream), payload }))
    }

    /// Reads frames until the connection is closed. Returns the error code of the server's GOAWAY, if there was one.
    ///
    /// # Errors
    /// When the connection stays open for [`STEP_TIMEOUT`].
    pub fn end(&mut self) -> io::Result<Option<u32>> {
        let (mut code, deadline) = (None, Deadline::after(STEP_TIMEOUT));
        self.connection.0.sock.set_read_timeout(Some(STEP_TIMEOUT))?;
        while !deadline.passed() {
            match self.read() {
                Ok(Some(frame)) if frame.kind == kind::GOAWAY => {
                    code = frame.payload.get(4..8).and_then(|code| Some(u32::from_be_bytes(code.try_into().ok()?)));
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Err(error);
                }
                Err(_) => return Ok(code),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

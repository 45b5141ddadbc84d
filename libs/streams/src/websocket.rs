//! The server side of WebSocket (RFC 6455).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures::{SinkExt, Stream, StreamExt};
use http::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

use crate::upgrade::{after, wanted};
use crate::{Io, MAX_CHUNK};

pub use tokio_tungstenite::tungstenite::Message;

/// A connection that speaks WebSocket.
pub type WebSocket<T> = WebSocketStream<T>;

/// The prefix of the names of tunnelled SPDY protocols, before the name of the inner protocol (only `portforward.k8s.io` today).
const TUNNEL_PREFIX: &str = "SPDY/3.1+";
const PROTOCOL_SUFFIX: &str = ".k8s.io";
/// The longest message of a client in bytes (upstream's library: 32 MiB).
const MAX_MESSAGE: usize = 32 << 20;
/// How long sending the close message may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a request asks for WebSocket.
#[must_use]
pub fn asked(headers: &HeaderMap) -> bool {
    wanted(headers) && headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Returns the subprotocols that a request offers, in the request's order.
pub fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|protocol| !protocol.is_empty())
}

/// Returns the inner names of the SPDY protocols that a request offers to tunnel.
pub fn tunnelled(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    protocols(headers)
        .filter(|protocol| protocol.ends_with(PROTOCOL_SUFFIX))
        .filter_map(|protocol| protocol.strip_prefix(TUNNEL_PREFIX))
}

/// Returns the WebSocket subprotocol of a tunnelled SPDY protocol.
#[must_use]
pub fn tunnel_of(protocol: &str) -> String {
    format!("{TUNNEL_PREFIX}{protocol}")
}

/// Makes the answer to a request for WebSocket.
///
/// # Errors
/// What is wrong with the request, for a 400.
pub fn accept(headers: &HeaderMap, protocol: Option<&str>) -> Result<Response<()>, &'static str> {
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or("no Sec-WebSocket-Key")?;
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err("Sec-WebSocket-Version is not 13");
    }
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(|_| "unusable key")?;
    answer.insert(SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(protocol) = protocol {
        let protocol = HeaderValue::from_str(protocol).map_err(|_| "unusable protocol")?;
        answer.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(response)
}

/// Starts WebSocket as the server on a connection whose upgrade was answered.
pub async fn serve<T: Io>(io: T) -> WebSocket<T> {
    let config = WebSocketConfig::default()
        .read_buffer_size(MAX_CHUNK)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

/// The message form of a byte stream to a client that only reads (upstream: `wsstream.Reader`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Binary messages.
    Binary,
    /// Text messages, each in Base64.
    Base64,
}

/// The subprotocols and the message form that each selects.
const READERS: [(&str, Reader); 2] = [("binary.k8s.io", Reader::Binary), ("base64.binary.k8s.io", Reader::Base64)];

impl Reader {
    /// Returns the message form for a request and the subprotocol for the answer: the first known one of the offered. A request that offers none gets binary messages;
    /// a request that offers only unknown subprotocols gets `None`.
    #[must_use]
    pub fn chosen(headers: &HeaderMap) -> Option<(Self, Option<&'static str>)> {
        let mut offered = protocols(headers).peekable();
        if offered.peek().is_none() {
            return Some((Self::Binary, None));
        }
        let known = |offer| READERS.iter().find(|(name, _)| *name == offer);
        offered.find_map(known).map(|(name, reader)| (*reader, Some(*name)))
    }

    fn message(self, part: Bytes) -> Message {
        match self {
            Self::Binary => Message::Binary(part),
            Self::Base64 => Message::text(STANDARD.encode(part)),
        }
    }

    /// Sends an empty message, since some clients wait for one before they count as connected, then all parts of the stream, until the stream ends or the client
    /// closes. Other messages of the client are ignored.
    pub async fn send<T: Io, E>(self, socket: WebSocket<T>, parts: impl Stream<Item = Result<Bytes, E>>) {
        let (mut sink, mut source) = socket.split();
        let receiving = async {
            while let Some(Ok(message)) = source.next().await {
                if message.is_close() {
                    break;
                }
            }
        };
        let sending = async {
            sink.send(self.message(Bytes::new())).await.ok()?;
            let mut parts = std::pin::pin!(parts);
            while let Some(Ok(mut part)) = parts.next().await {
                while !part.is_empty() {
                    let piece = part.split_to(part.len().min(MAX_CHUNK));
                    sink.send(self.message(piece)).await.ok()?;
                }
            }
            let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
            sink.send(Message::Close(Some(frame))).await.ok()
        };
        let (mut receiving, mut sending) = (std::pin::pin!(receiving), std::pin::pin!(sending));
        tokio::select! {
            () = &mut receiving => {}
            // The client answers the close message.
            sent = &mut sending => if sent.is_some() { after(receiving).await },
        }
    }
}

/// Closes the WebSocket with a close message.
pub async fn close<T: Io>(mut socket: WebSocket<T>) {
    let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    // Fails only when the client has disconnected.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, socket.close(Some(frame))).await;
}

/// Carries the bytes of binary messages both ways, like [`crate::upgrade::join`].
pub async fn tunnel(socket: WebSocket<impl Io>, other: impl Io) {
    let (mut sink, mut source) = socket.split();
    let (mut read, mut write) = tokio::io::split(other);
    let inwards = async {
        while let Some(Ok(message)) = source.next().await {
            let taken = match message {
                Message::Binary(data) => write.write_all(&data).await,
                Message::Close(_) | Message::Text(_) => break,
                _ => continue,
            };
            if taken.is_err() || write.flush().await.is_err() {
                break;
            }
        }
        // The peer may have disconnected already.
        let _ = write.shutdown().await;
    };
    let outwards = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(MAX_CHUNK);
            match (&mut read).take(MAX_CHUNK as u64).read_buf(&mut buffer).await {
                Ok(1..) if sink.send(Message::Binary(buffer.split().freeze())).await.is_ok() => {}
                _ => break,
            }
        }
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        // Fails only when the client has disconnected.
        let _ = sink.send(Message::Close(Some(frame))).await;
    };
    let (mut inwards, mut outwards) = (std::pin::pin!(inwards), std::pin::pin!(outwards));
    tokio::select! {
        () = &mut inwards => after(outwards).await,
        () = &mut outwards => after(inwards).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn reads_what_clients_offer() {
        let upgrade = [("Connection", "keep-alive, Upgrade"), ("Upgrade", "WebSocket")];
        assert!(asked(&headers(&upgrade)));
        assert!(!asked(&headers(&upgrade[..1])) && !asked(&headers(&upgrade[1..])));
        let offered =
            headers(&[("Sec-WebSocket-Protocol", "v5.channel.k8s.io, SPDY/3.1+portforward.k8s.io,SPDY/3.1+x")]);
        assert_eq!(protocols(&offered).count(), 3);
        assert_eq!(tunnelled(&offered).collect::<Vec<_>>(), ["portforward.k8s.io"]);
    }

    #[test]
    fn a_listener_chooses_bytes_or_text() {
        let offer = |offer| Reader::chosen(&headers(&[("Sec-WebSocket-Protocol", offer)]));
        assert_eq!(Reader::chosen(&headers(&[])), Some((Reader::Binary, None)));
        assert_eq!(offer("binary.k8s.io"), Some((Reader::Binary, Some("binary.k8s.io"))));
        assert_eq!(
            offer("x, base64.binary.k8s.io, binary.k8s.io"),
            Some((Reader::Base64, Some("base64.binary.k8s.io")))
        );
        assert_eq!(offer("v5.channel.k8s.io"), None);
    }

    async fn received(reader: Reader, parts: &[&'static str]) -> Vec<Message> {
        let (server, client) = tokio::io::duplex(1 << 16);
        let parts: Vec<_> = parts.iter().map(|part| Ok::<_, ()>(Bytes::from_static(part.as_bytes()))).collect();
        let send = async { reader.send(serve(server).await, futures::stream::iter(parts)).await };
        let listen = async {
            let socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
            socket.filter_map(async |message| message.ok()).collect::<Vec<_>>().await
        };
        futures::join!(send, listen).1
    }

    #[tokio::test]
    async fn a_listener_hears_an_empty_message_all_parts_and_the_end() {
        let texts = received(Reader::Base64, &["foo\n", "", "b"]).await;
        assert_eq!(texts[..3], ["", "Zm9vCg==", "Yg=="].map(Message::text));
        assert!(texts.last().unwrap().is_close());
        let bytes = received(Reader::Binary, &["foo\n"]).await;
        assert_eq!(bytes[..2], [&b""[..], b"foo\n"].map(|bytes| Message::Binary(Bytes::from_static(bytes))));
    }

    #[test]
    fn answers_as_the_rfc_has_it() {
        let request = headers(&[("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Version", "13")]);
        let answer = accept(&request, Some("v5.channel.k8s.io")).unwrap();
        assert_eq!(answer.headers()[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(accept(&headers(&[("Sec-WebSocket-Version", "13")]), None).is_err());
    }
}

//! The body of an answer as the connection takes it: in pieces, each of which is counted until the connection has sent or dropped the piece.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::connection::UnreadAnswer;
use crate::http::{Body, BodyError};

/// Number of bytes that are handed to the connection at a time. It takes the next piece only when the last one is sent, up to its own buffer.
const PIECE_BYTES: usize = 128 << 10;

/// The body of an answer.
pub(in crate::http) struct AnswerBody {
    body: Body,
    /// The part of the body's last frame that the connection has not taken.
    rest: Bytes,
    /// Counts the pieces; `None` for an answer that is passed on as it is read, or that is empty.
    answer: Option<Arc<UnreadAnswer>>,
}

impl AnswerBody {
    /// Returns a body whose pieces are counted.
    pub(super) const fn tracked(body: Body, answer: Arc<UnreadAnswer>) -> Self {
        Self { body, rest: Bytes::new(), answer: Some(answer) }
    }

    /// Returns a body whose pieces are not counted.
    pub(in crate::http) const fn untracked(body: Body) -> Self {
        Self { body, rest: Bytes::new(), answer: None }
    }
}

impl HttpBody for AnswerBody {
    type Data = Piece;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, BodyError>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers.map_data(Piece::uncounted)))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let length = self.rest.len().min(PIECE_BYTES);
        let bytes = self.rest.split_to(length);
        let piece = match &self.answer {
            Some(answer) => Piece::counted(bytes, answer),
            None => Piece::uncounted(bytes),
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut all = SizeHint::new();
        all.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + rest);
        }
        all
    }
}

/// Bytes of an answer. They keep the answer unread until they are dropped, so neither the stream nor the connection can hold them beyond the answer's account.
#[derive(Debug)]
pub(in crate::http) struct Piece {
    bytes: Bytes,
    /// The answer that counts the piece, and the length of the whole piece.
    counted: Option<(Arc<UnreadAnswer>, u64)>,
}

impl Piece {
    /// Hands a piece of an answer to the connection. It counts as sent when it is dropped.
    pub(super) fn counted(bytes: Bytes, answer: &Arc<UnreadAnswer>) -> Self {
        let length = bytes.len() as u64;
        answer.handed(length);
        Self { bytes, counted: Some((Arc::clone(answer), length)) }
    }

    const fn uncounted(bytes: Bytes) -> Self {
        Self { bytes, counted: None }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some((answer, length)) = &self.counted {
            answer.sent(*length);
        }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

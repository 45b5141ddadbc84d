//! Methods of gRPC services as constants: the path of a call with the types of its messages.

use std::fmt;
use std::marker::PhantomData;

/// Call kind: one request, one answer.
#[derive(Debug)]
pub enum Unary {}
/// Call kind: one request, a stream of answers.
#[derive(Debug)]
pub enum ServerStreaming {}
/// Call kind: a stream of requests, one answer.
#[derive(Debug)]
pub enum ClientStreaming {}
/// Call kind: a stream of requests, a stream of answers.
#[derive(Debug)]
pub enum Bidirectional {}

/// A method of a gRPC service, with requests of type `Q` and answers of type `R`; the call kind `K` says whether each is one message or a stream.
///
/// Callers have one function for every method of their service, which adds what all calls share (time limits, another server after a failure);
/// the typed constant prevents a call of a method with another method's message.
pub struct Method<Q, R, K = Unary> {
    path: &'static str,
    messages: PhantomData<fn(Q, K) -> R>,
}

impl<Q, R, K> Method<Q, R, K> {
    /// Makes the method at this path, which is `/package.Service/Method`.
    pub(crate) const fn new(path: &'static str) -> Self {
        Self { path, messages: PhantomData }
    }

    /// Returns the path of the HTTP/2 request, `/package.Service/Method`.
    pub const fn path(&self) -> &'static str {
        self.path
    }
}

impl<Q, R, K> Clone for Method<Q, R, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q, R, K> Copy for Method<Q, R, K> {}

impl<Q, R, K> fmt::Debug for Method<Q, R, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path)
    }
}

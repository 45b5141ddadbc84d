//! Methods of gRPC services as constants: the path of a call, with the types of its messages.

use std::fmt;
use std::marker::PhantomData;

/// One request, one answer.
#[derive(Debug)]
pub enum Unary {}
/// One request, a stream of answers.
#[derive(Debug)]
pub enum ServerStreaming {}
/// A stream of requests, one answer.
#[derive(Debug)]
pub enum ClientStreaming {}
/// A stream of requests, a stream of answers.
#[derive(Debug)]
pub enum Bidirectional {}

/// A method of a gRPC service: requests of type `Q`, answers of type `R`, in as many messages as the kind `K` says.
///
/// Callers have one function for every method of their service, which adds what all calls share (time limits, another server after a failure);
/// the constant that they are given lets no method be called with the message of another.
pub struct Method<Q, R, K = Unary> {
    path: &'static str,
    messages: PhantomData<fn(Q, K) -> R>,
}

impl<Q, R, K> Method<Q, R, K> {
    /// The method at this path, which is `/package.Service/Method`.
    pub(crate) const fn new(path: &'static str) -> Self {
        Self { path, messages: PhantomData }
    }

    /// Path of the HTTP/2 request, `/package.Service/Method`.
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

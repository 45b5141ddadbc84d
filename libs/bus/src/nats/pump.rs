//! Moves messages from a connection's subscriptions into queues.

use std::sync::Arc;

use async_nats::{Message, Subscriber};
use futures::StreamExt;
use tokio::time::Instant;

use super::connection::{Connection, NatsReply};
use super::listener::Listener;
use crate::queue::Delivery;
use crate::reply::ReplyChannel;
use crate::subject::Subject;

/// Moves the messages of a subscription until the connection or the subscription ends.
pub(super) async fn messages(connection: Arc<Connection>, mut subscriber: Subscriber, listener: Arc<Listener>) {
    loop {
        let message = tokio::select! {
            biased;
            () = listener.ended.cancelled() => return,
            () = connection.ended.cancelled() => return,
            message = subscriber.next() => message,
        };
        let Some(Message { subject, reply, payload, .. }) = message else { return };
        let at = Instant::now();
        let sender = Subject::parse(&subject).and_then(|subject| subject.sender());
        let reply = reply.and_then(|reply| NatsReply::new(&connection, reply, sender.as_ref()));
        let reply = reply.map(|reply| Box::new(reply) as Box<dyn ReplyChannel>);
        listener.queue.deliver(Delivery { subject: subject.into_string(), payload, at, reply });
    }
}

/// Hands answers to waiting asks; when the subscription ends, the connection is closed.
pub(super) async fn answers(connection: Arc<Connection>, mut subscriber: Subscriber) {
    loop {
        let message = tokio::select! {
            biased;
            message = subscriber.next() => message,
            () = connection.ended.cancelled() => return,
        };
        match message {
            Some(message) => connection.answered(message),
            None => return connection.ended.cancel(),
        }
    }
}

//! Keeps a bus connected: connects, subscribes every listener, waits for the loss, and repeats.

use std::sync::Arc;

use async_nats::ServerAddr;

use super::connection::Connection;
use super::random::random;
use super::shared::Shared;
use super::{backoff, pump};
use crate::error::AskError;

/// Runs until the last handle on the bus is dropped.
pub(super) async fn keep(shared: Arc<Shared>) {
    // If this task is dropped, the guard marks the bus as disconnected.
    let _end = DisconnectGuard(&shared);
    let mut failures = 0;
    let mut turn = random() as usize;
    loop {
        let servers = &shared.dialer.servers;
        let Some(server) = servers.get(turn % servers.len().max(1)) else { return };
        turn = turn.wrapping_add(1);
        let attempt = tokio::select! {
            biased;
            () = shared.unused.cancelled() => return,
            attempt = begin(&shared, server) => attempt,
        };
        match attempt {
            Ok(connection) => {
                let generation = shared.connected();
                tracing::info!(member = %shared.identity, server = %server.as_url_str(), generation, "bus connected");
                failures = 0;
                tokio::select! {
                    biased;
                    () = shared.unused.cancelled() => return,
                    () = connection.ended.cancelled() => {}
                }
                shared.disconnected();
                tracing::warn!(member = %shared.identity, generation, "bus disconnected");
            }
            Err(error) => {
                // Logged once per outage, at its first failure.
                if failures == 0 {
                    tracing::warn!(member = %shared.identity, server = %server.as_url_str(), %error, "bus cannot be reached");
                }
                failures += 1;
            }
        }
        tokio::select! {
            biased;
            () = shared.unused.cancelled() => return,
            () = tokio::time::sleep(backoff::pause(failures, random())) => {}
        }
    }
}

/// Marks the bus as disconnected when dropped.
struct DisconnectGuard<'a>(&'a Arc<Shared>);

impl Drop for DisconnectGuard<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.connection() {
            connection.ended.cancel();
        }
        self.0.disconnected();
    }
}

/// Why a connection with every subscription was not made.
#[derive(Debug, thiserror::Error)]
enum BeginError {
    /// The server cannot be reached, or refuses the login.
    #[error("{}", chain(.0))]
    Connect(#[from] async_nats::ConnectError),
    /// The connection was lost before the subscription to answers.
    #[error(transparent)]
    Subscribe(#[from] async_nats::SubscribeError),
    /// The server did not answer the first request.
    #[error("its first answer: {0}")]
    FirstAnswer(#[source] AskError),
}

/// Makes a connection with every subscription.
async fn begin(shared: &Arc<Shared>, server: &ServerAddr) -> Result<Arc<Connection>, BeginError> {
    let listener = Arc::downgrade(shared);
    let on_event = move |event| {
        if let Some(shared) = listener.upgrade() {
            shared.on_server_event(event);
        }
    };
    let connection = Arc::new(shared.dialer.dial(server, shared.next(), on_event).await?);
    let answers = connection.client.subscribe(connection.answers()).await?;
    shared.spawn.spawn(Box::pin(pump::answers(connection.clone(), answers)));
    // Before the listeners are read, so that a listener added meanwhile is not missed.
    shared.adopt(&connection);
    for listener in shared.listeners() {
        shared.attach(&connection, &listener).await;
    }
    if let Err(error) = connection.round_trip().await {
        connection.ended.cancel();
        shared.disconnected();
        return Err(BeginError::FirstAnswer(error));
    }
    Ok(connection)
}

/// Formats an error with its sources.
fn chain(error: &async_nats::ConnectError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

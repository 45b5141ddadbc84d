//! Keeps a connection: makes one, puts every subscription on it, waits for its loss, and so on.

use std::sync::Arc;

use async_nats::ServerAddr;

use super::connection::Connection;
use super::shared::{Shared, random};
use super::{backoff, pump};

/// Runs until nobody uses the bus any more.
pub(super) async fn keep(shared: Arc<Shared>) {
    // Dropped with its task, it leaves nobody believing in a connection that nobody keeps.
    let _end = End(&shared);
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
                // Once for each outage; it goes on until somebody sees to it.
                if failures == 0 {
                    tracing::warn!(member = %shared.identity, server = %server.as_url_str(), error, "bus cannot be reached");
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

struct End<'a>(&'a Arc<Shared>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.connection() {
            connection.ended.cancel();
        }
        self.0.disconnected();
    }
}

/// Makes a connection that has every subscription.
async fn begin(shared: &Arc<Shared>, server: &ServerAddr) -> Result<Arc<Connection>, String> {
    let listener = Arc::downgrade(shared);
    let said = move |said| {
        if let Some(shared) = listener.upgrade() {
            shared.said(said);
        }
    };
    let connection = shared.dialer.dial(server, shared.next(), said).await.map_err(|error| reason(&error))?;
    let connection = Arc::new(connection);
    let answers = connection.client.subscribe(connection.answers()).await.map_err(|error| error.to_string())?;
    shared.spawn.spawn(Box::pin(pump::answers(connection.clone(), answers)));
    // Before the look at the entries, so that none falls between.
    shared.adopt(&connection);
    for entry in shared.entries() {
        shared.attach(&connection, &entry).await;
    }
    if let Err(error) = connection.round_trip().await {
        connection.ended.cancel();
        shared.disconnected();
        return Err(format!("its first answer: {error}"));
    }
    Ok(connection)
}

fn reason(error: &async_nats::ConnectError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

//! One connection to one NATS server, from login to loss.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::{
    Auth, AuthError, Client, ConnectError, ConnectOptions, Event, Message, ServerAddr, ServerError, StatusCode,
};
use async_trait::async_trait;
use bytes::Bytes;
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::random::random;
use crate::credentials::Seed;
use crate::error::{AnswerError, AskError};
use crate::proof::RoleKeys;
use crate::reply::ReplyChannel;
use crate::role::Identity;
use crate::subject::Subject;

/// Interval after which a silent server is pinged; after two unanswered pings the connection is closed.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// Deadline for a new connection, and for a round trip to the server.
const SERVER_TIMEOUT: Duration = Duration::from_secs(2);
/// Messages that may wait to be written. Further asks wait for room, further hints are dropped.
const MAX_UNWRITTEN: usize = 1024;
/// Messages of one subscription that were read but not yet moved to its queue; they are moved at once.
const MAX_UNREAD: usize = 4096;

/// Parameters of new connections.
#[derive(Clone)]
pub(super) struct Dialer {
    pub(super) servers: Vec<ServerAddr>,
    pub(super) seed: Option<Seed>,
    pub(super) role_keys: RoleKeys,
    pub(super) tls: Option<rustls::ClientConfig>,
    pub(super) identity: Identity,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// A server event other than a message.
#[derive(Debug)]
pub(super) enum ServerEvent {
    /// The server refused something that our table allows.
    Refused(String),
    /// Messages were lost between the socket and a queue.
    Slow,
}

/// Waiting asks by the token of their inbox: the subject of each, and the channel for its answer.
type Waiting = Mutex<HashMap<String, (String, oneshot::Sender<Result<Bytes, AskError>>)>>;

/// A connection to a NATS server.
pub(crate) struct Connection {
    pub(super) client: Client,
    /// Cancelled when the connection is lost or no longer wanted.
    pub(super) ended: CancellationToken,
    /// Identifies the connection within this process.
    pub(super) id: u64,
    seed: Option<Seed>,
    inbox: String,
    waiting: Waiting,
    next: std::sync::atomic::AtomicU64,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Dialer {
    /// Connects to one server. `on_event` receives server events and must not block.
    pub(super) async fn dial(
        &self,
        server: &ServerAddr,
        id: u64,
        on_event: impl Fn(ServerEvent) + Send + Sync + 'static,
    ) -> Result<Connection, ConnectError> {
        let (ended, made) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
        let (end, on_event) = (ended.clone(), Arc::new(on_event));
        let (seed, first) = (self.seed.clone(), made.clone());
        // The client would reconnect by itself and send what it has kept; refusing a second login prevents that.
        let login = move |nonce: Vec<u8>| {
            let login = if first.load(Ordering::Acquire) && !seeded_bug!("connection_mended") {
                Err(AuthError::new("this connection was lost; another one is made"))
            } else {
                log_in(seed.as_ref(), &nonce)
            };
            std::future::ready(login)
        };
        let mut options = ConnectOptions::with_auth_callback(login)
            .max_reconnects(if seeded_bug!("connection_mended") { None } else { Some(1) })
            .connection_timeout(SERVER_TIMEOUT)
            .ping_interval(PING_INTERVAL)
            .client_capacity(MAX_UNWRITTEN)
            .subscription_capacity(MAX_UNREAD)
            .ignore_discovered_servers()
            .name(self.identity.to_string())
            .event_callback(move |event| {
                match event {
                    Event::Disconnected | Event::Closed => end.cancel(),
                    Event::SlowConsumer(_) => on_event(ServerEvent::Slow),
                    Event::ServerError(ServerError::Other(text)) => on_event(ServerEvent::Refused(text)),
                    other => tracing::debug!(event = %other, "bus"),
                }
                std::future::ready(())
            });
        if let Some(tls) = &self.tls {
            options = options.require_tls(true).tls_client_config(tls.clone());
        }
        let client = options.connect(server.clone()).await?;
        made.store(true, Ordering::Release);
        // A member that may answer could publish to any inbox whose name it knows; the random part hides the name.
        let inbox = format!("{}.{:016x}", self.identity.inbox(), random());
        let seed = self.seed.clone();
        Ok(Connection { client, ended, id, seed, inbox, waiting: Mutex::default(), next: 0.into() })
    }
}

fn log_in(seed: Option<&Seed>, nonce: &[u8]) -> Result<Auth, AuthError> {
    // The same key signs proofs of answers. A server's challenge is printable text; any other challenge may be an attempt to get a proof signed.
    if !nonce.iter().all(u8::is_ascii_graphic) {
        return Err(AuthError::new("the server's nonce is no text"));
    }
    let mut auth = Auth::new();
    if let Some(seed) = seed {
        auth.nkey = Some(seed.public_key().to_owned());
        auth.signature = Some(seed.sign(nonce).map_err(AuthError::new)?);
    }
    Ok(auth)
}

impl Connection {
    /// Returns the subject pattern of all answers.
    pub(super) fn answers(&self) -> String {
        format!("{}.*", self.inbox)
    }

    /// Hands an answer to the waiting ask; an answer without a waiting ask is dropped.
    pub(super) fn answered(&self, message: Message) {
        let token = message.subject.rsplit('.').next().unwrap_or_default();
        let Some((_, waiting)) = self.waiting.lock().remove(token) else { return };
        let answer = match message.status {
            Some(StatusCode::NO_RESPONDERS) => Err(AskError::NobodyThere),
            _ => Ok(message.payload),
        };
        // The asker may have met its deadline.
        let _ = waiting.send(answer);
    }

    /// Reports to a waiting ask that the server refused to publish on its subject.
    pub(super) fn denied(&self, subject: &str) {
        let mut waiting = self.waiting.lock();
        let tokens: Vec<String> =
            waiting.iter().filter(|(_, (to, _))| to == subject).map(|(token, _)| token.clone()).collect();
        for (to, waiting) in tokens.into_iter().filter_map(|token| waiting.remove(&token)) {
            let _ = waiting.send(Err(AskError::Denied(to)));
        }
    }

    /// Sends an ask and waits for the first answer.
    pub(super) async fn request(&self, subject: &str, payload: Bytes, deadline: Instant) -> Result<Bytes, AskError> {
        let token = format!("{:x}", self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(token.clone(), (subject.to_owned(), sender));
        let waiting = WaitingGuard { connection: self, token };
        let reply = format!("{}.{}", self.inbox, waiting.token);
        tokio::select! {
            biased;
            () = self.ended.cancelled() => return Err(AskError::Disconnected),
            sent = self.client.publish_with_reply(subject.to_owned(), reply, payload) => {
                // Nothing was queued for sending.
                sent.map_err(|_| AskError::Disconnected)?;
            }
            () = sleep_until(deadline) => return Err(AskError::Expired),
        }
        tokio::select! {
            biased;
            Ok(answer) = answer => answer,
            () = self.ended.cancelled() => Err(AskError::Lost),
            () = sleep_until(deadline) => Err(AskError::Timeout),
        }
    }

    /// Sends a message to the server and back; afterwards the server has processed all earlier messages.
    pub(super) async fn round_trip(&self) -> Result<(), AskError> {
        match self.request(Subject::sync().as_str(), Bytes::new(), Instant::now() + SERVER_TIMEOUT).await {
            Ok(_) | Err(AskError::NobodyThere) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Removes a waiting ask when dropped.
struct WaitingGuard<'a> {
    connection: &'a Connection,
    token: String,
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.connection.waiting.lock().remove(&self.token);
    }
}

/// Reply channel of an ask: over the connection that carried the ask.
#[derive(Debug)]
pub(super) struct NatsReply {
    connection: Arc<Connection>,
    inbox: async_nats::Subject,
}

impl NatsReply {
    /// Creates the reply channel that a message names; `None` for a subject that is no inbox, or not the inbox of the sender that the ask's subject names. Otherwise an asker
    /// could make this member publish where the asker may not.
    pub(super) fn new(
        connection: &Arc<Connection>,
        inbox: async_nats::Subject,
        sender: Option<&Identity>,
    ) -> Option<Self> {
        let reply = Self { connection: connection.clone(), inbox };
        let good = reply.inbox.starts_with("_INBOX_") && sender.is_none_or(|sender| reply.belongs_to(sender));
        (good || seeded_bug!("answer_anywhere")).then_some(reply)
    }
}

#[async_trait]
impl ReplyChannel for NatsReply {
    async fn send(&self, payload: Bytes) -> Result<(), AnswerError> {
        if self.connection.ended.is_cancelled() {
            return Err(AnswerError::Gone);
        }
        self.connection.client.publish(self.inbox.clone(), payload).await.map_err(|_| AnswerError::Gone)
    }

    fn max_payload(&self) -> usize {
        self.connection.client.max_payload()
    }

    fn seed(&self) -> Option<&Seed> {
        self.connection.seed.as_ref()
    }

    /// Whether the reply goes to the inbox of a member.
    fn belongs_to(&self, who: &Identity) -> bool {
        let own = self.inbox.strip_prefix(&who.inbox()).is_some_and(|rest| rest.starts_with('.'));
        own || seeded_bug!("answer_anywhere")
    }
}

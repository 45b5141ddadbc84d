//! `GET /snapshot`: streams all objects at one revision that is at least as new as the request. This path is our own. The answer contains every
//! object, so only users with all permissions on all resources may read it: the right to every path (`nonResourceURLs: ["*"]`), which monitoring often
//! has, is no right to read Secrets.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::{HeaderValue, Method, Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use oarlock_auth::Attributes;
use oarlock_meta::Status;
use oarlock_runtime::clock;
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::snapshot::{Encoder, OutOfOrder};
use oarlock_store::{Export, ReadError};
use tokio::sync::mpsc;

use super::{Body, BodyError, routes};
use crate::caller::Caller;
use crate::server::Server;

/// Path of the endpoint.
pub(super) const PATH: &str = "/snapshot";

/// Time limit of one snapshot: the server keeps the exported state in memory until then.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(600);
/// Number of bytes sent at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// How often the export is retried when the state leaves the watch windows before it could be read.
const MAX_RETRIES: usize = 5;

/// Answers the path.
///
/// # Errors
/// 405 for other methods; 403 without all permissions; 503 when freshness cannot be proven, 504 when it is not reached in time.
pub(super) async fn answer(server: &Server, caller: &Caller, method: &Method) -> Result<Response<Body>, Status> {
    if method != Method::GET {
        return Err(routes::method_not_allowed());
    }
    if !seeded_bug!("paths_open_the_snapshot") {
        server.authorize(&Attributes::resource(&caller.user, "*", "*", "*"))?;
    }
    let export = take(server, caller).await?;
    let (sender, receiver) = mpsc::channel(1);
    let (stop, deadline) = (server.streams().token(), clock::after(SNAPSHOT_TIMEOUT));
    let write = async move {
        let why = tokio::select! {
            () = stop.cancelled() => SendError::Shutdown,
            sent = clock::timeout_at(deadline, send(export, &sender)) => match sent {
                Ok(Ok(())) => return,
                Ok(Err(why)) => why,
                Err(_) => SendError::TimedOut,
            },
        };
        tracing::warn!(%why, "a snapshot was cut off");
    };
    server.streams().spawn("snapshot", write).map_err(|closed| Status::service_unavailable(closed.to_string()))?;
    let frames = stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver: mpsc::Receiver<Bytes> = receiver?;
        match receiver.recv().await {
            // The end is marked, so that no client takes a part for the whole.
            Some(last) if last.is_empty() => None,
            Some(bytes) => Some((Ok(Frame::data(bytes)), Some(receiver))),
            None => Some((Err(BodyError::BrokenOff), None)),
        }
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

/// Exports the current state.
async fn take(server: &Server, caller: &Caller) -> Result<Export, Status> {
    let mut tries = 0;
    loop {
        let now = server.store().fresh(caller.deadline).await.map_err(crate::errors::read)?;
        match Export::new(server.view(), now) {
            Err(ReadError::Expired { .. }) if tries < MAX_RETRIES => tries += 1,
            export => return export.map_err(crate::errors::read),
        }
    }
}

/// Why a snapshot was not sent to its end.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("the server is shutting down")]
    Shutdown,
    #[error("the time limit was exceeded")]
    TimedOut,
    #[error("the client disconnected")]
    Disconnected,
    /// An object cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The export is not in the order of its keys.
    #[error(transparent)]
    Order(#[from] OutOfOrder),
}

/// Sends the export as fast as the client takes it, then an empty chunk as the end mark.
async fn send(export: Export, sender: &mpsc::Sender<Bytes>) -> Result<(), SendError> {
    let disconnected = |_| SendError::Disconnected;
    let mut out = BytesMut::new();
    let mut encoder = Encoder::begin(&export.header(), &mut out);
    let mut objects = std::pin::pin!(export.objects());
    while let Some(object) = objects.next().await {
        encoder.object(&object?, &mut out)?;
        if out.len() >= CHUNK_BYTES {
            sender.send(out.split().freeze()).await.map_err(disconnected)?;
        }
    }
    encoder.end(&mut out);
    for last in [out.freeze(), Bytes::new()] {
        sender.send(last).await.map_err(disconnected)?;
    }
    Ok(())
}

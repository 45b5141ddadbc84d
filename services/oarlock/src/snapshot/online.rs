//! Saves the state of a running API server over HTTP.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use oarlock_client::RawRequest;
use oarlock_config::Kubeconfig;
use oarlock_meta::Status;
use oarlock_runtime::clock;

use super::file::Partial;
use crate::client;

/// How long to wait for the beginning of the server's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest pause within the server's answer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest number of bytes read of a refusal.
const REFUSAL_MAX: usize = 1 << 20;

/// Writes the snapshot that the server sends.
///
/// # Errors
/// When the kubeconfig is unusable, the server refuses, or the answer is truncated.
pub(super) async fn save(kubeconfig: &Path, mut partial: Partial) -> anyhow::Result<Partial> {
    let servers = Kubeconfig::read(kubeconfig)?.resolve(None)?;
    let client = client::of(&servers, concat!("oarlock-snapshot/", env!("CARGO_PKG_VERSION"))).await?;
    let reply = client.raw(RawRequest::get("/snapshot", ANSWER_TIMEOUT)).await.map_err(said)?;
    if reply.code != 200 {
        let code = reply.code;
        let bytes = reply.bytes(REFUSAL_MAX).await.map_err(said)?;
        match serde_json::from_slice::<Status>(&bytes) {
            Ok(status) => return Err(said(status)),
            Err(_) => bail!("the server answers {code}: {}", String::from_utf8_lossy(&bytes).trim_end()),
        }
    }
    let mut body = reply.body;
    while let Some(part) = clock::timeout(READ_TIMEOUT, body.next()).await.context("the server sends no more")? {
        partial.write(&part.map_err(said)?)?;
    }
    Ok(partial)
}

fn said(status: Status) -> anyhow::Error {
    anyhow::anyhow!("{} ({})", status.message, status.code)
}

//! Our server and agent with upstream's, in every pairing and mode.

use oarlock_konnectivity::Mode;

use super::programs::Maker;
use super::story;

/// Upstream's programs; `None` where they cannot be built.
fn upstream() -> Option<Maker> {
    crate::swaps::programs(&["konnectivity-server", "konnectivity-agent"]).map(Maker::Upstream)
}

#[tokio::test]
async fn our_server_serves_upstreams_agent() {
    let Some(theirs) = upstream() else { return };
    for mode in [Mode::Grpc, Mode::HttpConnect] {
        story::tell(Maker::Oarlock, theirs.clone(), mode).await;
    }
}

#[tokio::test]
async fn our_agent_serves_upstreams_server() {
    let Some(theirs) = upstream() else { return };
    for mode in [Mode::Grpc, Mode::HttpConnect] {
        story::tell(theirs.clone(), Maker::Oarlock, mode).await;
    }
}

#[tokio::test]
async fn our_client_uses_upstreams_server_and_agent() {
    let Some(theirs) = upstream() else { return };
    for mode in [Mode::Grpc, Mode::HttpConnect] {
        story::tell(theirs.clone(), theirs.clone(), mode).await;
    }
}

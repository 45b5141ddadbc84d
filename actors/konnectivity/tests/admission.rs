//! Which agents a server admits.

use oarlock_konnectivity::Agent;
use tonic::Code;

use crate::support::{RawAgent, Text, agent_options, serve, server_options, system, tunnel, until};

#[tokio::test]
async fn an_agent_with_a_wrong_token_or_anothers_host_is_refused() {
    let tunnel = tunnel().await;
    let server = tunnel.served.agents;
    for (id, identifiers, token, text) in
        [("x", "", "bad", "the token is not valid"), ("x", "host=node", "good", "agent x is not host node")]
    {
        let refused = RawAgent::connect(server, id, identifiers, token).await.err().unwrap();
        assert_eq!((refused.code(), refused.message()), (Code::Unauthenticated, text));
    }
    let nameless = RawAgent::connect(server, "", "", "good").await.err().unwrap();
    assert_eq!(nameless.code(), Code::InvalidArgument);
    assert_eq!(tunnel.served.server.agents(), 1, "only the honest agent");
    let own = RawAgent::connect(server, "x", "host=x", "good").await.unwrap();
    until("the agent is admitted", || tunnel.served.server.agents() == 2).await;
    drop(own);
    until("the agent has left", || tunnel.served.server.agents() == 1).await;
}

#[tokio::test]
async fn an_agent_that_is_refused_tries_again() {
    let system = system().await;
    let served = serve(&system, server_options("s")).await;
    let mut options = agent_options(served.agents, "node");
    options.token = Some(std::sync::Arc::new(Rotated(std::sync::atomic::AtomicU32::new(0))));
    let agent = Agent::start(&system, options).await.unwrap();
    until("the third token is good", || agent.servers() == ["s"]).await;
}

/// A token that is good when it is read for the third time.
struct Rotated(std::sync::atomic::AtomicU32);

#[async_trait::async_trait]
impl oarlock_konnectivity::Token for Rotated {
    async fn read(&self) -> std::io::Result<String> {
        let text = if self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 2 { "bad" } else { "good" };
        oarlock_konnectivity::Token::read(&Text(text)).await
    }
}

//! The tunnel to nodes that can only dial out, as programs: server and agent in processes of their own, with upstream's command lines.

mod api;
mod destinations;
mod forwarding;
mod keys;
mod pairings;
mod programs;
mod refusals;
mod story;

use oarlock_konnectivity::Mode;
use oarlock_testkit::{Signal, wait};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use destinations::Destinations;
use programs::{Maker, Tunnel};

#[tokio::test]
async fn our_server_and_agent_carry_everything_over_grpc_and_a_unix_socket() {
    story::tell(Maker::Oarlock, Maker::Oarlock, Mode::Grpc).await;
}

#[tokio::test]
async fn our_server_and_agent_carry_everything_over_http_connect_and_tls() {
    story::tell(Maker::Oarlock, Maker::Oarlock, Mode::HttpConnect).await;
}

#[tokio::test]
async fn an_agent_finishes_its_connections_on_sigterm_and_a_server_removes_its_socket() {
    let mut tunnel = Tunnel::start(Maker::Oarlock, Maker::Oarlock, Mode::Grpc).await;
    let echo = Destinations::new().echo().await;
    let mut stream = tunnel.dial(&echo.address).await.unwrap();
    tunnel.agent.signal(Signal::TERM);
    wait::step("the agent leaves", async {
        while !tunnel.agent.said().contains("the agent stops") {
            programs::pause().await;
        }
    })
    .await;
    stream.write_all(b"last").await.unwrap();
    let mut read = [0; 4];
    wait::step("the answer", stream.read_exact(&mut read)).await.unwrap();
    assert_eq!(&read, b"last");
    drop(stream);
    assert_eq!(tunnel.agent.wait_for_end(), Some(0));
    tunnel.server.signal(Signal::TERM);
    assert_eq!(tunnel.server.wait_for_end(), Some(0));
    assert!(!tunnel.socket().exists(), "the socket is left");
}

#[tokio::test]
async fn health_and_metrics_say_whether_an_agent_is_connected() {
    let mut tunnel = Tunnel::start(Maker::Oarlock, Maker::Oarlock, Mode::Grpc).await;
    let metrics = programs::get(tunnel.server_admin, "/metrics").await.unwrap().1;
    for line in [
        "konnectivity_network_proxy_server_ready_backend_connections 1",
        "konnectivity_network_proxy_server_grpc_connections{service_method=\"Connect\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let line = "konnectivity_network_proxy_agent_open_server_connections 1";
    programs::until_metrics(tunnel.agent_admin, line).await;
    tunnel.agent.kill();
    wait::step("the server is not ready without an agent", async {
        while programs::get(tunnel.server_health, "/ready").await.is_ok_and(|(code, _)| code == 200) {
            programs::pause().await;
        }
    })
    .await;
    assert_eq!(programs::get(tunnel.server_health, "/healthz").await.unwrap(), (200, "ok".to_owned()));
}

//! Bad flags and certificates: each an error that names the flag with its value or file.

use oarlock_konnectivity::Mode;
use oarlock_testkit::{Process, port, wait};

use super::keys::Keys;
use super::programs::{Maker, Tunnel, attach, pause};

/// Runs a program that must fail. Returns what it printed.
fn refused(part: &str, flags: &[String]) -> String {
    let mut command = oarlock_testkit::part(part);
    command.args(flags);
    let mut ran = Process::start(command, part);
    let code = ran.wait_for_end();
    assert!(matches!(code, Some(1 | 2)), "{part} {flags:?}: {}", ran.said());
    ran.said()
}

#[test]
fn a_server_names_the_flag_that_is_wrong() {
    let keys = Keys::make();
    keys.write("text.crt", "no certificate");
    let flag = |flag: &str, name: &str| keys.flag(flag, name);
    let ports = [format!("--agent-port={}", port::own()), "--health-port=0".to_owned(), "--admin-port=0".to_owned()];
    let uds = |name| flag("uds-name", name);
    let peers = |name: &str, authorities: &str| {
        let files = [("peer-cert", format!("{name}.crt")), ("peer-key", format!("{name}.key"))];
        let mut flags: Vec<_> = files.iter().map(|(named, file)| flag(named, file)).collect();
        flags.extend([flag("peer-ca-cert", authorities), "--peer-servers=127.0.0.1:8096".to_owned(), uds("uds")]);
        flags
    };
    let own =
        [flag("cluster-cert", "server.crt"), flag("cluster-key", "server.key"), flag("cluster-ca-cert", "ca.crt")];
    for (flags, named) in [
        (vec![uds("uds"), "--server-port=8090".to_owned()], "--server-port 8090: must be 0"),
        (vec!["--server-port=8090".to_owned()], "--server-port 8090: needs --server-cert"),
        (vec!["--server-port=0".to_owned()], "--server-port 0: API servers need a port"),
        (vec![uds("ca.crt")], "ca.crt: the file is there and is no socket"),
        (vec![uds("uds"), "--server-id=a b".to_owned()], "--server-id: \"a b\" is no id"),
        (vec![uds("uds"), "--kubeconfig=k".to_owned(), "--agent-namespace=n".to_owned()], "--agent-namespace"),
        (vec![uds("uds"), "--peer-port=8096".to_owned()], "--peer-cert"),
        (
            peers("server", "ca.crt"),
            "is one of \"konnectivity-server\", and must be one of \"system:konnectivity-server\"",
        ),
        (peers("none", "ca.crt"), "none.crt"),
        (peers("peer", "text.crt"), "text.crt"),
    ] {
        let said = refused("konnectivity-server", &[&own[..], &ports, &flags].concat());
        assert!(said.contains(named), "{flags:?}: {said}");
    }
    for (cert, key, ca, named) in [
        ("none.crt", "server.key", "ca.crt", "none.crt"),
        ("text.crt", "server.key", "ca.crt", "text.crt"),
        ("server.crt", "agent.key", "ca.crt", "does not belong to the key"),
        ("server.crt", "server.key", "text.crt", "text.crt"),
    ] {
        let flags = [flag("cluster-cert", cert), flag("cluster-key", key), flag("cluster-ca-cert", ca), uds("uds")];
        let said = refused("konnectivity-server", &[&flags[..], &ports].concat());
        assert!(said.contains("--cluster-cert") && said.contains(named), "{cert} {key} {ca}: {said}");
    }
}

#[test]
fn an_agent_names_the_flag_that_is_wrong() {
    let keys = Keys::make();
    let flag = |flag: &str, name: &str| keys.flag(flag, name);
    for (flags, named) in [
        (vec![flag("ca-cert", "none.crt")], vec!["--ca-cert", "none.crt"]),
        (vec![flag("ca-cert", "agent.key")], vec!["--ca-cert", "agent.key"]),
        (
            vec![flag("agent-cert", "agent.crt"), flag("agent-key", "server.key")],
            vec!["--agent-cert, --agent-key", "does not belong to the key"],
        ),
        (vec![flag("service-account-token-path", "none")], vec!["--service-account-token-path", "none"]),
        (vec!["--sync-interval=20s".to_owned()], vec!["--sync-interval 20s", "--sync-interval-cap 10s"]),
        (vec!["--agent-id=a b".to_owned()], vec!["--agent-id: \"a b\" is no id"]),
        (vec!["--proxy-server-host=a b".to_owned()], vec!["--proxy-server-host a b"]),
        (vec!["--agent-identifiers=ip=1.2.3.4".to_owned()], vec!["--agent-identifiers", "unknown identifier \"ip\""]),
    ] {
        let said = refused("konnectivity-agent", &flags);
        assert!(named.iter().all(|named| said.contains(named)), "{flags:?}: {said}");
    }
}

#[tokio::test]
async fn an_agent_with_a_certificate_of_another_authority_is_not_admitted() {
    let tunnel = Tunnel::start(Maker::Oarlock, Maker::Oarlock, Mode::Grpc).await;
    let (stranger, health, _) = attach(&Maker::Oarlock, &tunnel.keys, "stranger", tunnel.agent_port);
    // In some attempts the agent still writes when the server has closed, and sees no alert.
    wait::step("the refusal is logged", async {
        while !stranger.said().contains("received fatal alert: UnknownCA") {
            pause().await;
        }
    })
    .await;
    assert_eq!(super::programs::get(health, "/readyz").await.unwrap().0, 500);
    let metrics = super::programs::get(tunnel.server_admin, "/metrics").await.unwrap().1;
    assert!(metrics.contains("konnectivity_network_proxy_server_ready_backend_connections 1\n"), "{metrics}");
}

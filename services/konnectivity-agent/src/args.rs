//! Flags of `oarlock konnectivity-agent`; names are upstream's.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use oarlock_config::duration;
use oarlock_konnectivity::{Identifiers, InvalidIdentifier};

/// Flags of the tunnel's agent.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Host of the tunnel's servers, usually of their load balancer.
    #[arg(long, default_value = "127.0.0.1", value_name = "HOST")]
    pub proxy_server_host: String,
    /// Port of the tunnel's servers.
    #[arg(long, default_value_t = 8091, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub proxy_server_port: u16,
    /// Authorities (PEM) that must have signed the certificates of the tunnel's servers. Without this flag the host's trusted authorities.
    #[arg(long, value_name = "FILE")]
    pub ca_cert: Option<PathBuf>,
    /// Certificate (PEM) by which the agent authenticates.
    #[arg(long, value_name = "FILE", requires = "agent_key")]
    pub agent_cert: Option<PathBuf>,
    /// Key (PEM) of --agent-cert.
    #[arg(long, value_name = "FILE", requires = "agent_cert")]
    pub agent_key: Option<PathBuf>,
    /// File with a token of a service account by which the agent authenticates; read at each connection.
    #[arg(long, value_name = "FILE")]
    pub service_account_token_path: Option<PathBuf>,
    /// Id of this agent: two agents of one id take each other's connections. Without this flag that of the environment variable PROXY_AGENT_ID, or a random one.
    #[arg(long, value_name = "ID")]
    pub agent_id: Option<String>,
    /// Destinations that the agent is for, as the query of a URL: `host=node-1&ipv4=10.0.0.1&ipv6=fd00::1`, or `default-route=true`.
    #[arg(long, default_value = "", value_name = "QUERY", value_parser = identifiers)]
    pub agent_identifiers: String,
    /// Pause between two connections, and after the first failure.
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    pub sync_interval: Duration,
    /// Longest pause after failures.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION")]
    pub sync_interval_cap: Duration,
    /// Whether the agent, when it is connected to all servers that it knows of, looks for more of them every --sync-interval-cap.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub sync_forever: bool,
    /// Accepted for upstream's command lines, and without effect: the end of a connection is noticed at once.
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    pub probe_interval: Duration,
    /// Time without data after which a server is pinged over HTTP/2. Servers may refuse pings that come more often than every 5 minutes. The kernel probes the
    /// connection every 15 s in any case.
    #[arg(long, default_value = "1h", value_parser = duration, value_name = "DURATION")]
    pub keepalive_time: Duration,
    /// Port of health and metrics over plain HTTP for everybody: /healthz, /readyz, /ready, /metrics; 0 is none.
    #[arg(long, default_value_t = 8093, value_name = "PORT")]
    pub health_server_port: u16,
    /// Address of --health-server-port.
    #[arg(long, default_value_t = Ipv4Addr::UNSPECIFIED.into(), value_name = "IP")]
    pub health_server_host: IpAddr,
    /// Port of /metrics and /debug/actors over plain HTTP for everybody; 0 is none.
    #[arg(long, default_value_t = 8094, value_name = "PORT")]
    pub admin_server_port: u16,
    /// Address of --admin-server-port.
    #[arg(long, default_value_t = Ipv4Addr::LOCALHOST.into(), value_name = "IP")]
    pub admin_bind_address: IpAddr,
    /// Log filter, such as `info` or `oarlock_konnectivity=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}

fn identifiers(query: &str) -> Result<String, InvalidIdentifier> {
    Identifiers::check(query).map(|()| query.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(more: &[&str]) -> Result<Args, String> {
        let line = ["oarlock"].iter().chain(more);
        Line::try_parse_from(line).map(|line| line.args).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_upstreams() {
        let args = parse(&[]).unwrap();
        assert_eq!((args.proxy_server_host.as_str(), args.proxy_server_port), ("127.0.0.1", 8091));
        assert_eq!((args.health_server_port, args.admin_server_port), (8093, 8094));
        let (interval, cap) = (args.sync_interval, args.sync_interval_cap);
        assert_eq!((interval, cap, args.sync_forever), (Duration::from_secs(1), Duration::from_secs(10), false));
        assert_eq!(args.keepalive_time, Duration::from_secs(3600));
        assert!(parse(&["--sync-forever"]).unwrap().sync_forever);
    }

    #[test]
    fn bad_values_are_named() {
        for (flag, named) in [
            ("--agent-identifiers=ipv4=node-1", "\"node-1\""),
            ("--agent-identifiers=name=node-1", "unknown identifier \"name\""),
            ("--proxy-server-port=0", "'0'"),
            ("--sync-interval=1", "'1'"),
            ("--agent-cert=c", "--agent-key"),
        ] {
            let error = parse(&[flag]).unwrap_err();
            assert!(error.contains(named), "{flag}: {error}");
        }
    }
}

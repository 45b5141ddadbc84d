//! The choice of an agent for a connection (upstream `--proxy-strategies`).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use oarlock_runtime::Rng;

use super::identifiers::Identifiers;

/// A rule for the choice of an agent. Strategies are tried in order; the first that finds an agent decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Any agent.
    Default,
    /// An agent whose identifiers name the destination's host.
    DestHost,
    /// An agent that has declared itself the default route.
    DefaultRoute,
}

/// The text is no strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown proxy strategy {0:?}: must be default, destHost or defaultRoute")]
pub struct ParseStrategyError(String);

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::DestHost => "destHost",
            Self::DefaultRoute => "defaultRoute",
        })
    }
}

impl FromStr for Strategy {
    type Err = ParseStrategyError;

    fn from_str(text: &str) -> Result<Self, ParseStrategyError> {
        match text {
            "default" => Ok(Self::Default),
            "destHost" => Ok(Self::DestHost),
            "defaultRoute" => Ok(Self::DefaultRoute),
            _ => Err(ParseStrategyError(text.to_owned())),
        }
    }
}

impl Strategy {
    /// Whether an agent with these identifiers may carry connections to a host; `ip` is the host as an address.
    fn fits(self, identifiers: &Identifiers, host: &str, ip: Option<IpAddr>) -> bool {
        match self {
            Self::Default => true,
            Self::DestHost => identifiers.names(host, ip),
            Self::DefaultRoute => identifiers.default_route,
        }
    }
}

/// What the choice knows about an agent's stream.
pub(super) trait Candidate {
    fn agent(&self) -> &str;
    fn identifiers(&self) -> &Identifiers;
    fn is_draining(&self) -> bool;
}

/// Returns the host of an address `host:port`, without brackets.
pub(super) fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Orders the streams that may carry a connection to `address`, best first: streams of one strategy only, those of draining agents last, otherwise at random.
/// Of an agent with several streams, the newest is taken: an agent that connects again has lost its earlier streams. `streams` are in the order of their age,
/// oldest first.
pub(super) fn choose<C: Candidate>(
    strategies: &[Strategy],
    streams: impl IntoIterator<Item = C>,
    address: &str,
    rng: &mut Rng,
) -> Vec<C> {
    let mut newest: Vec<C> = Vec::new();
    for stream in streams {
        newest.retain(|known| known.agent() != stream.agent());
        newest.push(stream);
    }
    let host = host(address);
    let ip = host.parse::<IpAddr>().ok();
    for strategy in strategies {
        let fits = |identifiers: &Identifiers| strategy.fits(identifiers, host, ip);
        if newest.iter().any(|stream| fits(stream.identifiers())) {
            newest.retain(|stream| fits(stream.identifiers()));
            rng.shuffle(&mut newest);
            newest.sort_by_key(Candidate::is_draining);
            return newest;
        }
    }
    Vec::new()
}

/// Returns the strategies before the first one that finds one of these agents for a connection to `address`; all of them if none does.
pub(super) fn without_agent<'a, 'b>(
    strategies: &'a [Strategy],
    agents: impl IntoIterator<Item = &'b Identifiers>,
    address: &str,
) -> &'a [Strategy] {
    let host = host(address);
    let ip = host.parse::<IpAddr>().ok();
    let rank = |agent: &Identifiers| strategies.iter().position(|strategy| strategy.fits(agent, host, ip));
    let first = agents.into_iter().filter_map(rank).min().unwrap_or(strategies.len());
    strategies.get(..first).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[derive(Clone, Debug)]
    struct Stream(&'static str, &'static str, bool, u32);

    impl Candidate for (Stream, Identifiers) {
        fn agent(&self) -> &str {
            self.0.0
        }
        fn identifiers(&self) -> &Identifiers {
            &self.1
        }
        fn is_draining(&self) -> bool {
            self.0.2
        }
    }

    fn chosen(strategies: &[Strategy], streams: &[Stream], address: &str) -> Vec<Vec<u32>> {
        let draw = |seed| {
            let streams = streams.iter().map(|stream| (stream.clone(), Identifiers::parse(stream.1)));
            let chosen = choose(strategies, streams, address, &mut Rng::seeded(seed));
            chosen.iter().map(|(stream, _)| stream.3).collect()
        };
        (0..64).map(draw).collect::<BTreeSet<Vec<u32>>>().into_iter().collect()
    }

    #[test]
    fn strategies_are_tried_in_order() {
        use Strategy::{Default, DefaultRoute, DestHost};
        let streams = [
            Stream("a", "ipv4=10.0.0.1&host=node-a", false, 1),
            Stream("b", "ipv6=fd00:0::2", false, 2),
            Stream("c", "default-route=true", false, 3),
        ];
        assert_eq!(chosen(&[DestHost, DefaultRoute, Default], &streams, "10.0.0.1:10250"), [[1]]);
        assert_eq!(chosen(&[DestHost], &streams, "[fd00::2]:10250"), [[2]]);
        assert_eq!(chosen(&[DestHost], &streams, "node-a:10250"), [[1]]);
        assert_eq!(chosen(&[DestHost, DefaultRoute], &streams, "10.9.9.9:1"), [[3]]);
        assert_eq!(chosen(&[DestHost], &streams, "10.9.9.9:1"), [Vec::<u32>::new()]);
        assert_eq!(chosen(&[DestHost, Default], &streams, "10.9.9.9:1").len(), 6, "every order occurs");
    }

    #[test]
    fn draining_agents_come_last_and_the_newest_stream_of_an_agent_counts() {
        let streams = [Stream("a", "", false, 1), Stream("b", "", true, 2), Stream("a", "", false, 3)];
        assert_eq!(chosen(&[Strategy::Default], &streams, "x:1"), [[3, 2]]);
    }

    #[test]
    fn strategies_that_find_no_agent_are_those_before_the_first_that_does() {
        use Strategy::{Default, DefaultRoute, DestHost};
        let all = [DestHost, DefaultRoute, Default];
        let without = |agents: &[&str], address: &str| {
            let agents: Vec<_> = agents.iter().map(|agent| Identifiers::parse(agent)).collect();
            without_agent(&all, &agents, address).to_vec()
        };
        assert_eq!(without(&[], "node-a:1"), all);
        assert_eq!(without(&["host=node-b", "host=node-a"], "node-a:1"), []);
        assert_eq!(without(&["host=node-b", "default-route=true"], "node-a:1"), [DestHost]);
        assert_eq!(without(&["host=node-b"], "node-a:1"), [DestHost, DefaultRoute]);
    }

    #[test]
    fn a_strategy_is_read_as_it_is_written() {
        for strategy in [Strategy::Default, Strategy::DestHost, Strategy::DefaultRoute] {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
    }
}

//! The choice of an agent for a connection (upstream `--proxy-strategies`).

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
        let fits = |identifiers: &Identifiers| match strategy {
            Strategy::Default => true,
            Strategy::DestHost => identifiers.names(host, ip),
            Strategy::DefaultRoute => identifiers.default_route,
        };
        if newest.iter().any(|stream| fits(stream.identifiers())) {
            newest.retain(|stream| fits(stream.identifiers()));
            rng.shuffle(&mut newest);
            newest.sort_by_key(Candidate::is_draining);
            return newest;
        }
    }
    Vec::new()
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
}

//! Ports of one Service that share a node port.

use std::collections::HashMap;

use oarlock_schema::{Obj, Struct, Value};

/// Returns the node port that a port asks for; 0 for any.
pub(super) fn asked_of(port: &Struct) -> u16 {
    port.get("nodePort").and_then(Value::as_int).and_then(|n| u16::try_from(n).ok()).unwrap_or(0)
}

/// Node ports that ports of one Service can share. In a new Service, ports with the same number (one for each protocol) share a node port unless they
/// ask for different ones (upstream `initNodePorts`). In an update each port gets a node port of its own.
pub(super) struct Shared {
    new: bool,
    /// The first requested node port for each port number.
    asked: HashMap<i64, u16>,
    /// The first allocated node port for each port number.
    given: HashMap<i64, u16>,
}

impl Shared {
    pub(super) fn new(obj: &Obj, new: bool) -> Self {
        let mut asked = HashMap::new();
        for port in obj.at(&["spec", "ports"]).map_or(&[][..], Value::items).iter().filter_map(Value::as_struct) {
            let number = port.get("port").and_then(Value::as_int).unwrap_or(0);
            let wish = asked_of(port);
            if wish != 0 {
                asked.entry(number).or_insert(wish);
            }
        }
        Self { new, asked, given: HashMap::new() }
    }

    /// Returns the node port that a port should have, 0 for any, and whether the Service holds it already.
    pub(super) fn wish(&self, number: i64, asked: u16) -> (u16, bool) {
        if !self.new {
            return (asked, false);
        }
        let of = |ports: &HashMap<i64, u16>| ports.get(&number).copied();
        let given = of(&self.given);
        let wish = if asked == 0 { given.or_else(|| of(&self.asked)).unwrap_or(0) } else { asked };
        (wish, wish != 0 && given == Some(wish))
    }

    pub(super) fn note(&mut self, number: i64, given: u16) {
        self.given.entry(number).or_insert(given);
    }
}

#[cfg(test)]
mod tests {
    use oarlock_codec::{Mode, json};
    use oarlock_schema::resource;

    use super::*;

    /// Returns for each port of a Service, given as (port, requested node port), the node port it should have and whether the Service holds it
    /// already.
    fn wishes(new: bool, ports: &[(i64, u16)]) -> Vec<(u16, bool)> {
        let list: Vec<String> =
            ports.iter().map(|(port, asked)| format!(r#"{{"port":{port},"nodePort":{asked}}}"#)).collect();
        let text = format!(r#"{{"spec":{{"ports":[{}]}}}}"#, list.join(","));
        let ty = resource("", "v1", "services").unwrap().ty;
        let mut shared = Shared::new(&json::decode(text.as_bytes(), ty, Mode::Strict).unwrap().value, new);
        let mut next = 1;
        let mut each = |(port, asked): &(i64, u16)| {
            let wish = shared.wish(*port, *asked);
            let given = if wish.0 == 0 { next } else { wish.0 };
            next += 1;
            shared.note(*port, given);
            wish
        };
        ports.iter().map(&mut each).collect()
    }

    /// Each expected result was recorded from upstream.
    #[test]
    fn protocols_of_one_port_of_a_new_service_share_a_node_port() {
        assert_eq!(wishes(true, &[(53, 0), (53, 0), (80, 0)]), [(0, false), (1, true), (0, false)]);
        assert_eq!(wishes(true, &[(53, 0), (53, 31_100)]), [(31_100, false), (31_100, true)], "asked for later");
        assert_eq!(wishes(true, &[(53, 31_101), (53, 31_101)]), [(31_101, false), (31_101, true)]);
        assert_eq!(wishes(true, &[(53, 31_101), (53, 31_102)]), [(31_101, false), (31_102, false)], "two wishes");
        assert_eq!(wishes(false, &[(53, 0), (53, 0)]), [(0, false), (0, false)], "a change gives each its own");
    }
}

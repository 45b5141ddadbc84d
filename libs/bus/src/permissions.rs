//! Renders the table of subjects as nats-server's configuration: what each credential may publish and subscribe to. Everything else is refused.

use std::fmt::Write as _;

use crate::name::BadName;
use crate::role::{Identity, Role};
use crate::subjects::{Grant, QUEUE_GROUP, Row, table};

/// Time in which a receiver may answer a message; no ask has a longer budget.
const ANSWER_PERMISSION_EXPIRY: &str = "2m";

/// User name with which the servers of a cluster log in at one another.
const ROUTE_USER: &str = "route";

/// The owner of a credential: all members of a role, or one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder(Option<Identity>, Role);

impl Holder {
    /// The credential of all members of a role. Each node has its own credential, so the one of the node role permits nothing.
    #[must_use]
    pub const fn role(role: Role) -> Self {
        Self(None, role)
    }

    /// The credential of one node.
    ///
    /// # Errors
    /// For a name that cannot be part of a subject.
    pub fn node(name: &str) -> Result<Self, BadName> {
        Ok(Self(Some(Identity::new(Role::Node, name)?), Role::Node))
    }

    /// Returns the name of the credential's file: `scheduler`, `node-n1`.
    #[must_use]
    pub fn file_name(&self) -> String {
        match &self.0 {
            Some(node) => format!("{}-{}", Role::Node, node.name()),
            None => self.1.to_string(),
        }
    }

    /// Returns the holder whose file has this name.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        match name.strip_prefix("node-") {
            Some(node) => Self::node(node).ok(),
            None => Role::from_token(name).filter(|role| *role != Role::Node).map(Self::role),
        }
    }
}

/// Permissions of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Subjects that the holder may publish to.
    pub publish: Vec<String>,
    /// Subjects that the holder may subscribe to; after a space, the queue group that is required.
    pub hear: Vec<String>,
    /// Whether the holder may answer received messages, once each.
    pub answer: bool,
}

impl Permissions {
    /// Returns the permissions that the table grants.
    #[must_use]
    pub fn of(holder: &Holder) -> Self {
        let Holder(node, role) = holder;
        if *role == Role::Node && node.is_none() {
            return Self { publish: Vec::new(), hear: Vec::new(), answer: false };
        }
        let render = |row: &Row, grants: &[Grant]| {
            let (_, pin) = *grants.iter().find(|(granted, _)| granted == role)?;
            Some(row.render(|field| match field {
                "role" if pin.pins(field) => Some(role.as_str()),
                "name" if pin.pins(field) => node.as_ref().map(Identity::token),
                _ => None,
            }))
        };
        let publish = table().filter_map(|row| render(row, row.publish)).collect();
        let own = match node {
            Some(node) => format!("{}.>", node.inbox()),
            None => format!("_INBOX_{role}.>"),
        };
        let heard = table().filter_map(|row| {
            let pattern = render(row, row.hear)?;
            Some(if row.group { format!("{pattern} {QUEUE_GROUP}") } else { pattern })
        });
        let hear: Vec<String> = heard.chain([own]).collect();
        Self { publish, answer: hear.len() > 1, hear }
    }
}

/// Renders nats-server's configuration for the bus, without listen addresses: dead clients are detected in seconds, and every client gets the table's permissions. `tls` names
/// the files of the server's certificate and key.
#[must_use]
pub fn configuration<'a>(
    credentials: impl IntoIterator<Item = (&'a Holder, &'a str)>,
    tls: Option<(&str, &str)>,
) -> String {
    let tls = tls.map(|(certificate, key)| format!("tls {{ cert_file: {certificate:?}, key_file: {key:?} }}\n"));
    let limits = "max_payload: 1MB\nping_interval: \"5s\"\nping_max: 2\nwrite_deadline: \"2s\"\n";
    format!("{}{limits}{}", tls.unwrap_or_default(), authorization(credentials))
}

/// How the servers of one cluster connect to one another. A server trusts everything that arrives over a route, so a peer on a route could impersonate any member. Routes
/// therefore need a password and a certificate of `authority`, which signs only these servers.
#[derive(Clone, Copy, Debug)]
pub struct Routes<'a> {
    /// Addresses (`host:port`) of all servers of the cluster, including this one.
    pub servers: &'a [String],
    /// Address that this server listens on for routes.
    pub listen: &'a str,
    /// File of the certificate that a server presents on a route, as client and as server.
    pub certificate: &'a str,
    /// File of the certificate's key.
    pub key: &'a str,
    /// File of the certificate authority.
    pub authority: &'a str,
    /// The password; letters and digits only.
    pub password: &'a str,
}

/// Renders the `cluster` block of nats-server's configuration.
#[must_use]
pub fn cluster(routes: &Routes<'_>) -> String {
    let Routes { servers, listen, certificate, key, authority, password } = routes;
    let urls: Vec<String> = servers.iter().map(|server| format!("nats://{ROUTE_USER}:{password}@{server}")).collect();
    let tls =
        format!("cert_file: {certificate:?}, key_file: {key:?}, ca_file: {authority:?}, verify: true, timeout: 5");
    format!(
        "cluster {{\n  name: oarlock\n  listen: {listen:?}\n  no_advertise: true\n  tls {{ {tls} }}\n  authorization {{ user: {ROUTE_USER}, password: {password:?}, timeout: 5 }}\n  routes: {urls:?}\n}}\n"
    )
}

/// Renders the `authorization` block: each holder with the public half of its seed.
fn authorization<'a>(credentials: impl IntoIterator<Item = (&'a Holder, &'a str)>) -> String {
    let mut text = "authorization {\n  users = [\n".to_owned();
    for (holder, public_key) in credentials {
        let allowed = Permissions::of(holder);
        let answers = format!("\n        allow_responses: {{ max: 1, expires: \"{ANSWER_PERMISSION_EXPIRY}\" }}");
        let answers = if allowed.answer { answers.as_str() } else { "" };
        // Formatting into a string cannot fail.
        let _ = write!(
            text,
            "    # {}\n    {{ nkey: {public_key}\n      permissions: {{\n        publish: {{ allow: {} }}\n        subscribe: {{ allow: {} }}{answers}\n      }} }}\n",
            holder.file_name(),
            list(&allowed.publish),
            list(&allowed.hear),
        );
    }
    text + "  ]\n}\n"
}

/// An empty list would allow every subject, so it is rendered as a subject that cannot exist.
fn list(subjects: &[String]) -> String {
    match subjects {
        [] => "[\"ol.nothing\"]".to_owned(),
        subjects => format!("{subjects:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_may_do_what_carries_its_name() {
        let node = Permissions::of(&Holder::node("a.b").unwrap());
        assert_eq!(node.publish, ["ol.presence.node.a_b", "ol.up.a_b.*.*", "ol.sync"]);
        assert_eq!(node.hear, ["ol.node.a_b.*", "_INBOX_node.a_b.>"]);
        assert!(node.answer);
    }

    #[test]
    fn who_hears_only_answers_answers_nothing() {
        let inspector = Permissions::of(&Holder::role(Role::Inspector));
        assert_eq!(inspector.hear, ["ol.presence.*.*", "_INBOX_inspector.>"]);
        assert_eq!(Permissions::of(&Holder::role(Role::Node)).publish, Vec::<String>::new());
    }

    #[test]
    fn a_route_takes_a_certificate_and_a_password() {
        let servers = ["a:1".to_owned(), "b:2".to_owned()];
        let (listen, password) = ("0.0.0.0:1", "secret");
        let (certificate, key, authority) = ("r.crt", "r.key", "ca.crt");
        let text = cluster(&Routes { servers: &servers, listen, certificate, key, authority, password });
        for part in [
            "verify: true",
            "ca_file: \"ca.crt\"",
            "authorization { user: route, password: \"secret\"",
            "\"nats://route:secret@b:2\"",
            "no_advertise: true",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn files_are_named_after_their_holders() {
        let holders = Role::ALL.into_iter().filter(|role| *role != Role::Node).map(Holder::role);
        for holder in holders.chain([Holder::node("a.b").unwrap()]) {
            assert_eq!(Holder::from_file_name(&holder.file_name()), Some(holder));
        }
        for name in ["", "node", "node-", "node-*", "schedulers"] {
            assert_eq!(Holder::from_file_name(name), None, "{name}");
        }
    }

    #[test]
    fn the_block_lists_every_credential() {
        let scheduler = Holder::role(Role::Scheduler);
        let text = authorization([(&scheduler, "UABC")]);
        assert!(text.contains("# scheduler") && text.contains("nkey: UABC"), "{text}");
        assert!(text.contains("\"ol.unit.scheduler.*.*.*\"") && text.contains("\"ol.svc.scheduler.* ol\""), "{text}");
    }
}

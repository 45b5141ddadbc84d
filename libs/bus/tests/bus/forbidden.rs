//! Tries every pair of credential and subject, publishing and subscribing, at a real server: what the table does not allow is refused.

use std::fmt::Write as _;
use std::time::Duration;

use futures::StreamExt;
use oarlock_bus::subjects::{QUEUE_GROUP, Row, table};
use oarlock_bus::{Identity, Role};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use crate::server::{Server, who};

/// A raw client with one credential.
struct Member {
    identity: Identity,
    client: async_nats::Client,
    said: UnboundedReceiver<String>,
    fences: u32,
}

impl Member {
    /// Returns the server's refusals since the last call. Every member is refused the fence subject, and the server answers in order.
    async fn refused(&mut self) -> Vec<String> {
        self.fences += 1;
        let fence = format!("fence.{}", self.fences);
        self.client.publish(fence.clone(), "".into()).await.unwrap();
        let mut refused = Vec::new();
        loop {
            let said = timeout(Duration::from_secs(30), self.said.recv()).await.expect("the fence").expect("events");
            if said.contains(&format!("\"{fence}\"")) {
                return refused;
            }
            if said.contains("Permissions Violation") {
                refused.push(said);
            }
        }
    }

    async fn may_publish(&mut self, subject: &str) -> bool {
        self.client.publish(subject.to_owned(), "".into()).await.unwrap();
        self.refused().await.is_empty()
    }

    async fn may_subscribe(&mut self, pattern: &str, group: bool) -> bool {
        let heard = match group {
            true => self.client.queue_subscribe(pattern.to_owned(), QUEUE_GROUP.to_owned()).await,
            false => self.client.subscribe(pattern.to_owned()).await,
        };
        let refused = self.refused().await;
        heard.unwrap().unsubscribe().await.unwrap();
        refused.is_empty()
    }
}

/// A subject of a row, with the member's own role and name or with others.
fn subject(row: &Row, own: &Identity, own_role: bool, own_name: bool) -> String {
    let role = match (own_role, own.role()) {
        (true, role) => role,
        (false, Role::Controllers) => Role::Scheduler,
        (false, _) => Role::Controllers,
    };
    let name = if own_name { own.name() } else { "n2" };
    let fields = [("{role}", role.as_str()), ("{name}", name), ("{epoch}", "e5"), ("{unit}", "u"), ("{method}", "m")];
    let text = fields.iter().fold(row.template.to_owned(), |text, (field, value)| text.replace(field, value));
    text.replace("{service}", "s").replace("{topic}", "t")
}

/// Rights of each role in letters (`p` may publish, `h` may subscribe), for four cases: own role and name, another name, another role, both others. Only a node's credential
/// is bound to a name.
const MATRIX: &str = "\
api-server   presence ph ph h h    unit p p    service ph p   node p p   up h h - -   member ph ph p p   hint ph   feed - -   sync p
controllers  presence ph ph h h    unit ph p   service ph p   node p p   up h h - -   member ph ph - -   hint ph   feed - -   sync p
scheduler    presence ph ph h h    unit ph p   service ph p   node - -   up h h - -   member ph ph - -   hint ph   feed ph -   sync p
admission    presence ph ph h h    unit - -    service ph p   node - -   up h h - -   member ph ph - -   hint ph   feed - -   sync p
cloud        presence ph ph h h    unit - -    service ph p   node - -   up - - - -   member ph ph - -   hint -    feed - -   sync p
node         presence p - - -      unit - -    service - -    node h -   up p - p -   member - - - -     hint -    feed - -   sync p
inspector    presence h h h h      unit - -    service p p    node p p   up - - - -   member p p p p     hint -    feed - -   sync p
";

#[tokio::test(flavor = "multi_thread")]
async fn every_forbidden_pair_is_refused_by_the_server() {
    let Some(server) = tokio::task::block_in_place(|| Server::start("")) else { return };
    let mut matrix = String::new();
    let mut pairs = (0, 0);
    for role in Role::ALL {
        let identity = who(role, "n1");
        let (client, said) = server.raw(&identity).await;
        let mut member = Member { identity, client, said, fences: 0 };
        matrix.push_str(role.as_str());
        for row in table() {
            write!(matrix, " {}", row.name).unwrap();
            for (own_role, own_name) in variants(row) {
                let text = subject(row, &member.identity, own_role, own_name);
                let publishes = member.may_publish(&text).await;
                let hears = member.may_subscribe(&text, row.group).await;
                // The bus decides alike, except that it knows its own name in every role.
                let known = member.identity.role() == Role::Node || own_name;
                assert!(!known || publishes == row.may_publish(&member.identity, &text), "{role} to {text}");
                assert!(!known || hears == row.may_subscribe(&member.identity, &text), "{role} of {text}");
                matrix.push_str(match (publishes, hears) {
                    (true, true) => " ph",
                    (true, false) => " p",
                    (false, true) => " h",
                    (false, false) => " -",
                });
                pairs.0 += usize::from(!publishes) + usize::from(!hears);
                pairs.1 += usize::from(publishes) + usize::from(hears);
                if row.group {
                    assert!(!member.may_subscribe(&text, false).await, "{role} outside the group of {text}");
                }
            }
        }
        matrix.push('\n');
        for wide in
            [">", "ol.>", "*.>", "ol.*.>", "ol.node.>", "ol.unit.>", "_INBOX_node.n2.>", "_INBOX_node.>", "$SYS.>"]
        {
            assert!(!member.may_subscribe(wide, false).await, "{role} hears {wide}");
        }
        for wide in ["ol", "ol.unit.x", "_INBOX_node.n2.x", "_INBOX_scheduler.s.x", "$SYS.REQ.SERVER.PING", "x"] {
            assert!(!member.may_publish(wide).await, "{role} publishes {wide}");
        }
    }
    let words =
        |text: &str| text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
    assert_eq!(words(&matrix), words(MATRIX), "\n{matrix}");
    assert!(pairs.0 > 100 && pairs.1 > 50, "{pairs:?}");
    eprintln!("{} pairs are refused, {} allowed", pairs.0, pairs.1);
}

/// The combinations of own and foreign role and name that a row allows.
fn variants(row: &Row) -> Vec<(bool, bool)> {
    let (role, name) = (row.template.contains("{role}"), row.template.contains("{name}"));
    match (role, name) {
        (true, true) => vec![(true, true), (true, false), (false, true), (false, false)],
        (true, false) => vec![(true, true), (false, true)],
        (false, true) => vec![(true, true), (true, false)],
        (false, false) => vec![(true, true)],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_neither_speaks_as_another_nor_hears_what_is_meant_for_it() {
    let Some(server) = tokio::task::block_in_place(|| Server::start("")) else { return };
    let (thief, mut said) = server.raw(&who(Role::Node, "n1")).await;
    let (victim, _) = server.raw(&who(Role::Node, "n2")).await;
    let (controllers, _) = server.raw(&who(Role::Controllers, "c")).await;
    let mut presence = controllers.subscribe("ol.presence.*.*").await.unwrap();
    let mut to_victim = victim.subscribe("ol.node.n2.*").await.unwrap();
    let mut stolen = thief.subscribe("ol.node.n2.*").await.unwrap();
    let mut all = thief.subscribe("ol.node.*.*").await.unwrap();
    for client in [&controllers, &victim] {
        settle(client).await;
    }
    thief.publish("ol.presence.node.n2", "n1 as n2".into()).await.unwrap();
    thief.publish("ol.presence.node.n1", "n1".into()).await.unwrap();
    let first = timeout(Duration::from_secs(30), presence.next()).await.unwrap().unwrap();
    assert_eq!((first.subject.as_str(), &first.payload[..]), ("ol.presence.node.n1", &b"n1"[..]));
    controllers.publish("ol.node.n2.drain", "for n2".into()).await.unwrap();
    let message = timeout(Duration::from_secs(30), to_victim.next()).await.unwrap().unwrap();
    assert_eq!(&message.payload[..], b"for n2");
    // Each refusal arrived, and no message did.
    let mut refused = Vec::new();
    while refused.len() < 3 {
        let text = timeout(Duration::from_secs(30), said.recv()).await.unwrap().unwrap();
        if text.contains("Permissions Violation") {
            refused.push(text);
        }
    }
    settle(&thief).await;
    for heard in [&mut stolen, &mut all] {
        assert!(futures::FutureExt::now_or_never(heard.next()).flatten().is_none());
    }
}

/// Waits until the server has processed all earlier messages: its "no responders" answer comes after them.
async fn settle(client: &async_nats::Client) {
    let error = client.request("ol.sync", "".into()).await.unwrap_err();
    assert_eq!(error.kind(), async_nats::RequestErrorKind::NoResponders);
}

//! Tests with peers that ignore the protocol.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use oarlock_bus::proto::bus::v1::{Answer, Envelope, FailureCode, Sender, answer::Outcome};
use oarlock_bus::{Asks, Bus, HintEvent, Pattern, Role, Subject};
use oarlock_meta::Revision;
use prost::Message;
use tokio::time::timeout;

use crate::server::{Server, who};

const LONG_BUDGET: Duration = Duration::from_secs(30);

fn envelope(name: &str) -> Envelope {
    Envelope {
        version: 1,
        sender: Some(Sender { role: "node".to_owned(), name: name.to_owned() }),
        budget_us: 30_000_000,
        r#type: "google.protobuf.StringValue".to_owned(),
        ..Envelope::default()
    }
}

/// A controller manager that serves nodes and answers every ask with the asker's name.
async fn serve(mut asks: Asks) {
    while let Some(ask) = asks.next().await {
        let sender = ask.sender().to_string();
        ask.answer(&sender).await.unwrap();
    }
}

async fn controllers(server: &Server) -> (Bus, Asks) {
    let bus = server.join(who(Role::Controllers, "c")).await;
    let asks = bus.serve(&Pattern::up(Role::Controllers, "drained").unwrap(), 64).await.unwrap();
    (bus, asks)
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_refused_with_a_reason_and_harms_nothing() {
    let Some(server) = tokio::task::block_in_place(|| Server::start("")) else { return };
    let (bus, asks) = controllers(&server).await;
    let (raw, _) = server.raw(&who(Role::Node, "n1")).await;
    let good = Bytes::from(envelope("n1").encode_to_vec());
    let mut refused = 0;
    let trying = async {
        let fixed = [Bytes::new(), Bytes::from_static(b"\xff\xff"), Bytes::from(envelope("n2").encode_to_vec())];
        let damaged = oarlock_testkit::damaged(3, &good, 1000).map(Bytes::from);
        for payload in fixed.into_iter().chain(damaged) {
            let answer = raw.request("ol.up.n1.controllers.drained", payload).await.unwrap();
            match Answer::decode(answer.payload).unwrap().outcome.unwrap() {
                Outcome::Failure(failure) => {
                    assert_eq!(failure.code(), FailureCode::Malformed, "{failure:?}");
                    assert!(!failure.message.is_empty());
                    refused += 1;
                }
                Outcome::Done(_) | Outcome::Expired(_) => {}
                other => panic!("{other:?}"),
            }
        }
        let node = server.join(who(Role::Node, "n1")).await;
        let subject = Subject::up("n1", Role::Controllers, "drained").unwrap();
        let answer: String = node.ask(&subject, &String::new(), LONG_BUDGET).await.unwrap();
        assert_eq!(answer, "node/n1");
    };
    tokio::select! { () = trying => {}, () = serve(asks) => {} }
    assert!(refused > 100, "{refused}");
    let stats = bus.stats();
    let up = stats.iter().find(|kind| kind.kind == "up").unwrap();
    assert_eq!(usize::try_from(up.malformed).unwrap(), refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_that_cannot_be_read_are_counted_and_not_heard() {
    let Some(server) = tokio::task::block_in_place(|| Server::start("")) else { return };
    let bus = server.join(who(Role::Controllers, "c")).await;
    let mut hints = bus.listen(&Pattern::presence(), 64).await.unwrap();
    let (raw, _) = server.raw(&who(Role::Node, "n1")).await;
    for payload in [Bytes::from_static(b"garbage"), Bytes::from(envelope("n2").encode_to_vec())] {
        raw.publish("ol.presence.node.n1", payload).await.unwrap();
    }
    raw.publish("ol.presence.node.n1", Bytes::from(envelope("n1").encode_to_vec())).await.unwrap();
    let HintEvent::Hint(hint) = timeout(LONG_BUDGET, hints.next()).await.unwrap() else { panic!("lost") };
    assert_eq!(hint.sender(), &who(Role::Node, "n1"));
    assert_eq!(bus.stats()[0].malformed, 2);
}

/// The asker names the reply subject, and the server lets a reply go anywhere.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_made_to_speak_where_the_asker_likes() {
    let Some(server) = tokio::task::block_in_place(|| Server::start("")) else { return };
    let (_bus, asks) = controllers(&server).await;
    let api_server = server.join(who(Role::ApiServer, "a")).await;
    let mut hints = api_server.listen(&Pattern::hint("nodes").unwrap(), 64).await.unwrap();
    let (raw, _) = server.raw(&who(Role::Node, "n1")).await;
    let (victim, _) = server.raw(&who(Role::Node, "n2")).await;
    let mut inbox = victim.subscribe("_INBOX_node.n2.x").await.unwrap();
    let (observer, _) = server.raw(&who(Role::ApiServer, "b")).await;
    let mut observed = observer.subscribe("ol.hint.*").await.unwrap();
    for client in [&victim, &observer] {
        client.request("ol.sync", "".into()).await.unwrap_err();
    }
    let trying = async {
        let (subject, payload) = ("ol.up.n1.controllers.drained", Bytes::from(envelope("n1").encode_to_vec()));
        for reply in ["ol.hint.nodes", "_INBOX_node.n2.x", "_INBOX_node.n1"] {
            for payload in [payload.clone(), Bytes::from_static(b"garbage")] {
                raw.publish_with_reply(subject, reply, payload).await.unwrap();
            }
        }
        // Answered after the hints.
        raw.request(subject, payload).await.unwrap();
    };
    tokio::select! { () = trying => {}, () = serve(asks) => {} }
    // A last hint to each listener; no other may arrive before it.
    api_server.hint(&Subject::hint("nodes").unwrap(), &"last".to_owned()).unwrap();
    let HintEvent::Hint(hint) = timeout(LONG_BUDGET, hints.next()).await.unwrap() else { panic!("lost") };
    assert_eq!(hint.body::<String>().as_deref(), Ok("last"));
    let first = timeout(LONG_BUDGET, observed.next()).await.unwrap().unwrap();
    assert!(
        Envelope::decode(first.payload).is_ok_and(|envelope| !envelope.r#type.is_empty()),
        "an answer came as a hint"
    );
    victim.request("ol.sync", "".into()).await.unwrap_err();
    let stolen = futures::FutureExt::now_or_never(inbox.next()).flatten();
    assert!(stolen.is_none(), "{stolen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_limit_is_the_limit() {
    let Some(server) = tokio::task::block_in_place(|| Server::start("max_payload: 65536\n")) else { return };
    let bus = server.join(who(Role::Scheduler, "s")).await;
    let subject = Subject::unit(Role::Scheduler, "arbiter", Revision(1), "propose").unwrap();
    let asked = bus.ask::<_, String>(&subject, &"x".repeat(65_536), LONG_BUDGET).await.unwrap_err();
    assert!(matches!(asked, oarlock_bus::AskError::TooLarge { limit: 65_536, .. }), "{asked}");
    let asked = bus.ask::<_, String>(&subject, &"x".repeat(65_000), LONG_BUDGET).await.unwrap_err();
    assert_eq!(asked, oarlock_bus::AskError::NobodyThere, "and the connection stands");
}

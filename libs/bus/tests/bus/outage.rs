//! Tests with servers that hang, that stop with messages in flight, or that are not trusted.

use std::time::Duration;

use futures::FutureExt;
use oarlock_bus::{AskError, Bus, HintEvent, Identity, Pattern, Role, Subject};
use oarlock_testkit::Signal;
use oarlock_testkit::nats::Nats;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep, timeout};

use crate::server::{Server, who};

const LONG_BUDGET: Duration = Duration::from_secs(30);

async fn connected(bus: &Bus, generation: u64) {
    let there = bus.wait_for(|state| state.connected && state.generation >= generation);
    timeout(LONG_BUDGET, there).await.expect("connected");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_given_up_and_taken_again_when_it_goes_on() {
    let Some(server) = block_in_place(|| Server::start("")) else { return };
    let bus = server.join(who(Role::Scheduler, "s")).await;
    let subject = Subject::service(Role::Scheduler, "x").unwrap();
    server.nats.signal(Signal::STOP);
    let began = Instant::now();
    let asked = bus.ask::<_, String>(&subject, &String::new(), LONG_BUDGET).await;
    assert_eq!(asked, Err(AskError::Lost), "not before the budget is over");
    assert!(began.elapsed() < LONG_BUDGET / 2, "{:?}", began.elapsed());
    assert_eq!(bus.ask::<_, String>(&subject, &String::new(), LONG_BUDGET).await, Err(AskError::Disconnected));
    server.nats.signal(Signal::CONT);
    connected(&bus, 2).await;
    assert_eq!(bus.ask::<_, String>(&subject, &String::new(), LONG_BUDGET).await, Err(AskError::NobodyThere));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_server_did_not_take_is_not_sent_to_the_next() {
    let Some(mut server) = block_in_place(|| Server::start("")) else { return };
    let (listener, sender) =
        (server.join(who(Role::ApiServer, "l")).await, server.join(who(Role::Controllers, "s")).await);
    let mut hints = listener.listen(&Pattern::hint("nodes").unwrap(), 4096).await.unwrap();
    let subject = Subject::hint("nodes").unwrap();
    server.nats.signal(Signal::STOP);
    // More than the sockets' buffers hold: the rest waits in this process.
    let stale = "stale ".repeat(20_000);
    let taken = (0..600).filter(|_| sender.hint(&subject, &stale).is_ok()).count();
    assert!(taken > 200, "{taken}");
    block_in_place(|| server.nats.kill());
    timeout(LONG_BUDGET, listener.wait_for(|state| !state.connected)).await.unwrap();
    // Messages that the server forwarded before it hung.
    while hints.next().now_or_never().is_some() {}
    block_in_place(|| server.nats.restart());
    connected(&listener, 2).await;
    connected(&sender, 2).await;
    // Long enough for a client that would reconnect by itself.
    let until = Instant::now() + Duration::from_secs(2);
    let mut fresh = 0;
    while Instant::now() < until {
        let _ = sender.hint(&subject, &"fresh".to_owned());
        if let Ok(HintEvent::Hint(hint)) = timeout(Duration::from_millis(50), hints.next()).await {
            assert_eq!(hint.body::<String>().map(|text| text.len()), Ok("fresh".len()));
            fresh += 1;
        }
    }
    assert!(fresh > 10, "{fresh}");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_without_a_server_and_begin_when_there_is_one() {
    let Some(mut server) = block_in_place(|| Server::start("")) else { return };
    block_in_place(|| server.nats.stop());
    let scheduler = who(Role::Scheduler, "s");
    let bus = Bus::connect(server.options(&scheduler), scheduler).unwrap();
    let mut asks = bus.serve(&Pattern::member(bus.identity()), 8).await.unwrap();
    let subject = Subject::member(bus.identity(), "ping").unwrap();
    assert_eq!(bus.ask::<_, String>(&subject, &String::new(), LONG_BUDGET).await, Err(AskError::Disconnected));
    block_in_place(|| server.nats.restart());
    connected(&bus, 1).await;
    let question = String::new();
    let (answer, ()) = tokio::join!(bus.ask::<_, String>(&subject, &question, LONG_BUDGET), async {
        let ask = asks.next().await.unwrap();
        ask.answer(&"here".to_owned()).await.unwrap();
    });
    assert_eq!(answer.as_deref(), Ok("here"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_ends_with_its_last_user() {
    let Some(server) = block_in_place(|| Server::start("")) else { return };
    let (inspector, scheduler) =
        (server.join(who(Role::Inspector, "i")).await, server.join(who(Role::Scheduler, "s")).await);
    let subject = Subject::member(scheduler.identity(), "ping").unwrap();
    let asks = scheduler.serve(&Pattern::member(scheduler.identity()), 8).await.unwrap();
    drop(scheduler);
    let asked = inspector.ask::<_, String>(&subject, &String::new(), Duration::from_millis(100)).await;
    assert_eq!(asked, Err(AskError::Timeout), "whoever serves uses it still");
    drop(asks);
    let gone = async {
        let budget = Duration::from_millis(100);
        while inspector.ask::<_, String>(&subject, &String::new(), budget).await != Err(AskError::NobodyThere) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG_BUDGET, gone).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_servers_of_our_authority_are_spoken_to() {
    let Some(server) = block_in_place(|| Server::of(Nats::secured)) else { return };
    let bus = server.join(who(Role::Scheduler, "s")).await;
    let subject = Subject::service(Role::Scheduler, "x").unwrap();
    assert_eq!(bus.ask::<_, String>(&subject, &String::new(), LONG_BUDGET).await, Err(AskError::NobodyThere));
    // A server of another authority, and a client without authorities at a server that requires TLS.
    let Some(other) = block_in_place(|| Server::of(Nats::secured)) else { return };
    let mut options = server.options(bus.identity());
    options.authorities = other.nats.authority().map(str::to_owned);
    let distrustful = Bus::connect(options.clone(), who(Role::Scheduler, "d")).unwrap();
    options.authorities = None;
    let plain = Bus::connect(options, who(Role::Scheduler, "p")).unwrap();
    for bus in [distrustful, plain] {
        assert!(timeout(Duration::from_secs(2), bus.wait_for(|state| state.connected)).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_the_server_does_not_know_is_not_let_in() {
    let Some(server) = block_in_place(|| Server::start("")) else { return };
    let Some(other) = block_in_place(|| Server::start("")) else { return };
    let scheduler: Identity = who(Role::Scheduler, "s");
    let mut options = server.options(&scheduler);
    options.credentials = Some(other.seed(&scheduler).secret().to_owned());
    for credentials in [options.credentials.clone(), None] {
        let bus = Bus::connect(oarlock_bus::Options { credentials, ..options.clone() }, scheduler.clone()).unwrap();
        assert!(timeout(Duration::from_secs(2), bus.wait_for(|state| state.connected)).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_is_withdrawn_is_shut_out_and_one_that_is_added_let_in() {
    let Some(server) = block_in_place(|| Server::start("")) else { return };
    let (stays, goes) = (server.join(who(Role::Node, "n1")).await, server.join(who(Role::Node, "n2")).await);
    server.reload_without(&["node-n2"]);
    timeout(LONG_BUDGET, goes.wait_for(|state| !state.connected)).await.expect("its connection is closed");
    assert!(
        timeout(Duration::from_secs(2), goes.wait_for(|state| state.connected)).await.is_err(),
        "and no other made"
    );
    assert_eq!((stays.state().connected, stays.state().generation), (true, 1), "others notice nothing");
    server.reload_without(&[]);
    connected(&goes, 2).await;
}

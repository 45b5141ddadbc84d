//! Tests of members that ask one another, over an in-memory bus and with virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use oarlock_bus::proto::bus::v1::FailureCode;
use oarlock_bus::proto::mesh::v1::{ActorsAnswer, Here};
use oarlock_bus::{AskError, Bus, Decline, Exchange, Identity, Pattern, Role, Subject};
use oarlock_mesh::member_actors;
use oarlock_mesh::{Holder, Placement, Service, Unit, attend, inspect};
use oarlock_meta::Revision;
use oarlock_runtime::{Actor, ActorKind, Ctx, Failure, Options, System, clock};
use oarlock_telemetry::traces::{self, traceparent};
use tokio::sync::Notify;

const LONG: Duration = Duration::from_secs(30);

fn member(exchange: &Exchange, role: Role, name: &str) -> Bus {
    Bus::memory(exchange, Identity::new(role, name).unwrap())
}

async fn ask(bus: &Bus, subject: &Subject, text: &str) -> Result<String, AskError> {
    bus.ask(subject, &text.to_owned(), LONG).await
}

fn echo() -> (Pattern, Subject) {
    (Pattern::service(Role::Scheduler, "echo").unwrap(), Subject::service(Role::Scheduler, "echo").unwrap())
}

/// Asks until a member answers, because an actor subscribes some time after its start.
async fn until_there(bus: &Bus, subject: &Subject) -> Result<String, AskError> {
    loop {
        match ask(bus, subject, "").await {
            Err(AskError::NobodyThere) => clock::sleep(Duration::from_millis(1)).await,
            other => return other,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn so_many_are_handled_at_once_and_the_others_told_at_once() {
    let system = System::start(Options::default()).await.unwrap();
    let exchange = Exchange::new();
    let (server, asker) = (member(&exchange, Role::Scheduler, "s"), member(&exchange, Role::Controllers, "c"));
    let (pattern, subject) = echo();
    let (release, gate) = (Arc::new(Notify::new()), Arc::new(tokio::sync::Semaphore::new(0)));
    let (waits, begun) = (release.clone(), gate.clone());
    let service = Service::new(pattern, 2).method("echo", move |text: String, _| {
        let (waits, begun) = (waits.clone(), begun.clone());
        async move {
            begun.add_permits(1);
            waits.notified().await;
            Ok::<_, Decline>(text)
        }
    });
    let actor = service.start(&system, server).await.unwrap();
    actor.running(clock::after(LONG)).await.unwrap();
    clock::sleep(Duration::from_millis(1)).await;
    let began = clock::now();
    let asks = async { tokio::join!(ask(&asker, &subject, "1"), ask(&asker, &subject, "2")) };
    let (answers, ()) = tokio::join!(asks, async {
        drop(gate.acquire_many(2).await.unwrap());
        for refused in join_all((0..5).map(|_| ask(&asker, &subject, "more"))).await {
            assert!(
                matches!(refused, Err(AskError::Overloaded { retry_after }) if !retry_after.is_zero()),
                "{refused:?}"
            );
        }
        assert_eq!(began.elapsed(), Duration::ZERO, "at once");
        release.notify_waiters();
    });
    assert_eq!(answers, (Ok("1".to_owned()), Ok("2".to_owned())));
    release.notify_one();
    assert_eq!(ask(&asker, &subject, "room again").await.as_deref(), Ok("room again"));
}

#[tokio::test(start_paused = true)]
async fn whoever_is_asked_longer_than_the_asker_waits_is_dropped_and_makes_room() {
    let system = System::start(Options::default()).await.unwrap();
    let exchange = Exchange::new();
    let (server, asker) = (member(&exchange, Role::Scheduler, "s"), member(&exchange, Role::Controllers, "c"));
    let (pattern, subject) = echo();
    let service =
        Service::new(pattern, 1).method("echo", |text: String, asked: oarlock_mesh::RequestInfo| async move {
            assert!(asked.deadline.remaining() <= LONG);
            if text == "hang" { std::future::pending().await } else { Ok::<_, Decline>(text) }
        });
    service.start(&system, server).await.unwrap();
    until_there(&asker, &subject).await.unwrap();
    let asked = asker.ask::<_, String>(&subject, &"hang".to_owned(), Duration::from_secs(1)).await;
    assert!(
        matches!(asked, Err(AskError::Timeout | AskError::Failed { code: FailureCode::Abandoned, .. })),
        "{asked:?}"
    );
    clock::sleep(Duration::from_millis(1)).await;
    assert_eq!(ask(&asker, &subject, "next").await.as_deref(), Ok("next"));
    let other = Subject::member(&Identity::new(Role::Scheduler, "s").unwrap(), "x").unwrap();
    assert!(ask(&asker, &other, "").await.is_err());
}

/// A scheduler that can hold the arbiter's unit, and another scheduler that asks.
async fn arbiter(system: &System, exchange: &Exchange) -> (Holder, Bus) {
    let (holder, placement) = Placement::shared();
    let service = Service::unit(Role::Scheduler, Unit::named("arbiter"), placement, 8)
        .method("propose", |text: String, _| std::future::ready(Ok::<_, Decline>(text)));
    service.start(system, member(exchange, Role::Scheduler, "holder")).await.unwrap();
    (holder, member(exchange, Role::Scheduler, "asker"))
}

fn at(epoch: u64) -> Subject {
    Subject::unit(Role::Scheduler, "arbiter", Revision(epoch), "propose").unwrap()
}

fn held(epoch: u64) -> BTreeMap<Unit, Revision> {
    BTreeMap::from([(Unit::named("arbiter"), Revision(epoch))])
}

#[tokio::test(start_paused = true)]
async fn a_unit_answers_at_its_own_epoch_and_says_which_that_is() {
    let system = System::start(Options::default()).await.unwrap();
    let exchange = Exchange::new();
    let (holder, asker) = arbiter(&system, &exchange).await;
    assert_eq!(ask(&asker, &at(5), "").await, Err(AskError::NobodyThere), "nothing is held");
    holder.set(held(5));
    assert_eq!(until_there(&asker, &at(5)).await.as_deref(), Ok(""));
    assert_eq!(ask(&asker, &at(4), "").await, Err(AskError::NobodyThere));
    assert_eq!(ask(&asker, &at(6), "").await, Err(AskError::NobodyThere));
    holder.set(held(7));
    assert_eq!(ask(&asker, &at(5), "").await, Err(AskError::WrongEpoch { current: Some(Revision(7)) }));
    assert_eq!(until_there(&asker, &at(7)).await.as_deref(), Ok(""));
    holder.set(BTreeMap::new());
    assert_eq!(ask(&asker, &at(7), "").await, Err(AskError::WrongEpoch { current: None }));
    clock::sleep(Duration::from_secs(6)).await;
    assert_eq!(ask(&asker, &at(7), "").await, Err(AskError::NobodyThere), "told for a while, not for ever");
    let method = Subject::unit(Role::Scheduler, "arbiter", Revision(9), "sing").unwrap();
    holder.set(held(9));
    let unknown = until_there(&asker, &method).await;
    assert!(matches!(unknown, Err(AskError::Failed { code: FailureCode::UnknownMethod, .. })), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_stopped_ends_what_it_has_begun_and_begins_nothing() {
    let system = System::start(Options::default()).await.unwrap();
    let exchange = Exchange::new();
    let (server, asker) = (member(&exchange, Role::Scheduler, "s"), member(&exchange, Role::Controllers, "c"));
    let (pattern, subject) = echo();
    let begun = Arc::new(Notify::new());
    let begins = begun.clone();
    let service = Service::new(pattern, 4).method("echo", move |text: String, _| {
        let begins = begins.clone();
        async move {
            begins.notify_one();
            clock::sleep(Duration::from_secs(2)).await;
            Ok::<_, Decline>(text)
        }
    });
    let actor = service.start(&system, server).await.unwrap();
    let (answer, ()) = tokio::join!(until_there(&asker, &subject), async {
        begun.notified().await;
        actor.stop();
        clock::sleep(Duration::from_millis(1)).await;
        assert_eq!(ask(&asker, &subject, "late").await, Err(AskError::NobodyThere));
    });
    assert_eq!(answer.as_deref(), Ok(""));
    assert_eq!(actor.ended(clock::after(LONG)).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_trace_goes_through_every_process_that_an_ask_causes_work_in() {
    let system = System::start(Options::default()).await.unwrap();
    let exchange = Exchange::new();
    let front = member(&exchange, Role::Admission, "front");
    let back = member(&exchange, Role::Scheduler, "back");
    let asker = member(&exchange, Role::ApiServer, "a");
    let seen = |_: String, _| async { Ok::<_, Decline>(traces::current().trace_id().to_string()) };
    let (pattern, behind) = echo();
    Service::new(pattern, 4).method("echo", seen).start(&system, back).await.unwrap();
    let caller = front.clone();
    let pass_on = move |text: String, _| {
        let (caller, behind) = (caller.clone(), behind.clone());
        async move { ask(&caller, &behind, &text).await.map_err(|error| Decline::Failed(error.to_string())) }
    };
    let pattern = Pattern::service(Role::Admission, "review").unwrap();
    Service::new(pattern, 4).method("review", pass_on).start(&system, front).await.unwrap();
    clock::sleep(Duration::from_millis(1)).await;
    let context = traceparent::parse("00-0000000000000000000000000000feed-0000000000000001-01").unwrap();
    let subject = Subject::service(Role::Admission, "review").unwrap();
    let answer = traces::within(Some(context.clone()), ask(&asker, &subject, "")).await;
    assert_eq!(answer, Ok(context.trace_id().to_string()));
}

#[tokio::test(start_paused = true)]
async fn everybody_who_was_heard_is_in_the_table_whether_they_answer_or_not() {
    let system = System::start(Options::default()).await.unwrap();
    let exchange = Exchange::new();
    let silent = member(&exchange, Role::Controllers, "silent");
    let members = [
        member(&exchange, Role::Scheduler, "one"),
        member(&exchange, Role::ApiServer, "two"),
        member(&exchange, Role::Node, "ip-10-0-0-1.ec2.internal"),
    ];
    for bus in members.iter().chain([&silent]) {
        attend(&system, bus).await.unwrap();
    }
    clock::sleep(Duration::from_secs(8)).await;
    exchange.cut(silent.identity());
    clock::sleep(Duration::from_secs(20)).await;
    let inspector = member(&exchange, Role::Inspector, "i");
    let reports = inspect::inspect(&inspector, Duration::from_secs(1)).await.unwrap();
    let names: Vec<String> = reports.iter().map(|report| report.member.to_string()).collect();
    assert_eq!(names, ["api-server/two", "controllers/silent", "scheduler/one", "node/ip-10-0-0-1.ec2.internal"]);
    for report in &reports {
        match &report.answer {
            Err(error) => assert_eq!((report.member.name(), error), ("silent", &AskError::NobodyThere)),
            Ok(answer) => {
                let presence = answer.kinds.iter().find(|kind| kind.kind == "presence").unwrap();
                assert!(presence.sent_messages > 0 && presence.sent_bytes > 0, "{presence:?}");
                let hears = report.member.role() != Role::Node;
                assert_eq!(presence.heard_messages > 0, hears, "{presence:?}");
                assert_eq!((answer.generation, answer.age_ms), (1, 28_000));
            }
        }
    }
    let text = inspect::table(&reports);
    assert!(text.contains("no answer: nobody is there; heard 2"), "{text}");
    clock::sleep(Duration::from_secs(60)).await;
    let reports = inspect::inspect(&inspector, Duration::from_secs(1)).await.unwrap();
    assert!(reports.iter().all(|report| report.member.name() != "silent"), "forgotten");
    exchange.cut(inspector.identity());
    assert_eq!(inspect::inspect(&inspector, Duration::from_secs(1)).await, Err(AskError::Disconnected));
}

static CREW: ActorKind = ActorKind { name: "test.crew", ..ActorKind::DEFAULT };

/// An actor whose first message is never finished.
struct Hanging;

impl Actor for Hanging {
    type Message = ();
    type State = ();

    async fn start(&self, _: &Ctx<()>) -> Result<(), Failure> {
        Ok(())
    }

    async fn handle(&self, (): &mut (), (): (), _: &Ctx<()>) -> Result<(), Failure> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn everybody_tells_of_all_its_actors_and_who_does_not_is_told_of() {
    let [host, other] =
        [System::start(Options::default()).await.unwrap(), System::start(Options::default()).await.unwrap()];
    let exchange = Exchange::new();
    let asker = member(&exchange, Role::ApiServer, "asker");
    let [crew, gone] = ["crew", "gone"].map(|name| member(&exchange, Role::Scheduler, name));
    for (system, bus) in [(&other, &asker), (&host, &crew), (&other, &gone)] {
        attend(system, bus).await.unwrap();
    }
    for key in 0..300 {
        let publish = move |ctx: oarlock_runtime::LoopCtx| async move {
            ctx.publish(&"x".repeat(if key == 7 { 100_000 } else { 1 }));
            ctx.or_stop(std::future::pending::<()>()).await;
            Ok(())
        };
        host.spawn_loop(&CREW, key.to_string(), publish).await.unwrap();
    }
    let hanging = host.spawn(&CREW, "hanging", Hanging).await.unwrap();
    hanging.try_send(()).unwrap();
    clock::sleep(Duration::from_secs(8)).await;
    exchange.cut(gone.identity());

    let present = member_actors::list(&asker, Duration::from_secs(1)).await.unwrap();
    let names: Vec<&str> = present.iter().map(|present| present.member.name()).collect();
    assert_eq!(names, ["crew", "gone"], "everybody but the asker");
    assert_eq!(present[1].actors, Err(AskError::NobodyThere));
    let told = present[0].actors.as_ref().unwrap();
    let own: BTreeMap<&str, &serde_json::Value> =
        told.iter().filter(|actor| actor.kind == CREW.name).map(|actor| (actor.key.as_str(), &actor.state)).collect();
    assert_eq!(own.len(), 301, "in pages, each once");
    assert_eq!(*own["8"], "x");
    assert_eq!(*own["7"], "100002 bytes, see /debug/actors of the process");
    assert!(own["hanging"].is_null(), "shown all the same");
}

#[tokio::test(start_paused = true)]
async fn who_tells_of_ever_more_actors_is_not_heard_to_the_end() {
    let system = System::start(Options::default()).await.unwrap();
    let exchange = Exchange::new();
    let (asker, liar) = (member(&exchange, Role::ApiServer, "asker"), member(&exchange, Role::Node, "liar"));
    attend(&system, &asker).await.unwrap();
    let mut asks = liar.serve(&Pattern::member(liar.identity()), 4).await.unwrap();
    let mut actor = serde_json::to_value(system.snapshot().first().unwrap()).unwrap();
    let lies = async {
        liar.hint(&Subject::presence(liar.identity()), &Here {}).unwrap();
        let mut told = 0_u64;
        while let Ok(ask) = asks.next().await.ok_or("over") {
            let page = (0..128).map(|_| {
                told += 1;
                actor["key"] = told.to_string().into();
                serde_json::to_vec(&actor).unwrap().into()
            });
            let page = ActorsAnswer { actors: page.collect(), more: true };
            ask.answer(&page).await.unwrap();
        }
    };
    let asked = async {
        clock::sleep(Duration::from_secs(8)).await;
        member_actors::list(&asker, Duration::from_secs(1)).await.unwrap()
    };
    let present = tokio::select! {
        () = lies => panic!("nobody asks any more"),
        present = asked => present,
    };
    assert_eq!(present[0].actors, Err(AskError::Garbled("more than 4096 actors".to_owned())));
}

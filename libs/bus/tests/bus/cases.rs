//! The cases of the bus contract.

use std::time::Duration;

use async_trait::async_trait;
use oarlock_bus::proto::bus::v1::FailureCode;
use oarlock_bus::{AnswerError, Ask, AskError, Asks, Bus, Decline, HintError, HintEvent, Hints, Identity, ListenError};
use oarlock_bus::{Pattern, Role, Subject};
use oarlock_meta::Revision;
use oarlock_telemetry::traces::{self, traceparent};
use tokio::time::{Instant, sleep, timeout};

/// The environment of a case: a server of its own.
#[async_trait]
pub(crate) trait Ground: Send + Sync {
    /// Connects another member.
    async fn join(&self, identity: Identity) -> Bus;
    /// Stops the server; members notice at once or soon.
    async fn stop(&self);
    /// Starts the server again.
    async fn start(&self);
}

/// Expands to one test per case.
macro_rules! each_case {
    ($make:ident) => {
        $make! {
            an_ask_has_its_answer
            nobody_there_is_known_at_once
            a_service_is_asked_once
            everybody_hears_a_hint
            no_room_is_answered_at_once
            hints_without_room_are_lost_and_told
            the_budget_shrinks_with_the_time_queued
            what_expired_in_the_queue_is_not_handed_out
            silence_is_a_timeout
            an_abandoned_ask_is_told
            who_stops_says_so_to_what_waits
            who_stopped_is_not_there
            another_epoch_is_another_subject
            every_refusal_arrives_as_what_it_is
            what_is_too_large_is_a_clear_error
            bodies_are_of_the_type_they_say
            the_table_is_kept
            a_trace_goes_on
            a_hint_names_the_span_that_sends_it
            nothing_is_kept_for_later
            who_waits_when_the_connection_breaks_knows_at_once
            listeners_hear_again_and_know_that_they_missed
        }
    };
}
pub(crate) use each_case;

/// A budget that no test exhausts.
const LONG_BUDGET: Duration = Duration::from_secs(30);

fn who(role: Role, name: &str) -> Identity {
    Identity::new(role, name).unwrap()
}

fn arbiter(epoch: u64) -> (Subject, Pattern) {
    let subject = Subject::unit(Role::Scheduler, "arbiter", Revision(epoch), "propose").unwrap();
    (subject, Pattern::unit(Role::Scheduler, "arbiter", Revision(epoch)).unwrap())
}

/// A scheduler that holds the arbiter at epoch 5, and another scheduler that asks it.
async fn pair(ground: &dyn Ground, capacity: usize) -> (Bus, Asks, Bus, Subject) {
    let (subject, pattern) = arbiter(5);
    let holder = ground.join(who(Role::Scheduler, "holder")).await;
    let asks = holder.serve(&pattern, capacity).await.unwrap();
    (holder, asks, ground.join(who(Role::Scheduler, "asker")).await, subject)
}

async fn ask(bus: &Bus, subject: &Subject, text: &str, budget: Duration) -> Result<String, AskError> {
    bus.ask(subject, &text.to_owned(), budget).await
}

async fn next(asks: &mut Asks) -> Ask {
    timeout(LONG_BUDGET, asks.next()).await.expect("an ask in time").expect("an ask")
}

async fn heard(hints: &mut Hints) -> Result<String, Option<u64>> {
    match timeout(LONG_BUDGET, hints.next()).await.expect("something in time") {
        HintEvent::Hint(hint) => Ok(hint.body().unwrap()),
        HintEvent::Lost(count) => Err(count),
    }
}

/// Repeats an ask until a listener answers: another server may not know the listener yet.
async fn ask_until_there(bus: &Bus, subject: &Subject) -> String {
    let asked = async {
        loop {
            match ask(bus, subject, "again", LONG_BUDGET).await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.certainly_not_begun(), "{error}"),
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG_BUDGET, asked).await.expect("an answer in time")
}

pub(crate) async fn an_ask_has_its_answer(ground: &dyn Ground) {
    let (_holder, mut asks, asker, subject) = pair(ground, 8).await;
    let (answer, ()) = tokio::join!(ask(&asker, &subject, "pod", LONG_BUDGET), async {
        let ask = next(&mut asks).await;
        assert_eq!((ask.subject(), ask.sender()), (&subject, asker.identity()));
        assert_eq!((ask.subject().epoch(), ask.subject().method()), (Some(Revision(5)), "propose"));
        let body: String = ask.body().unwrap();
        ask.answer(&format!("{body} bound")).await.unwrap();
    });
    assert_eq!(answer.as_deref(), Ok("pod bound"));
    let stats = asker.stats();
    assert_eq!((stats.len(), stats[0].kind.as_str(), stats[0].sent_messages), (1, "unit", 1));
}

pub(crate) async fn nobody_there_is_known_at_once(ground: &dyn Ground) {
    let asker = ground.join(who(Role::Scheduler, "asker")).await;
    let began = Instant::now();
    assert_eq!(ask(&asker, &arbiter(1).0, "", LONG_BUDGET).await, Err(AskError::NobodyThere));
    assert!(began.elapsed() < LONG_BUDGET / 2, "{:?}", began.elapsed());
}

pub(crate) async fn a_service_is_asked_once(ground: &dyn Ground) {
    let subject = Subject::service(Role::Admission, "review").unwrap();
    let pattern = Pattern::service(Role::Admission, "review").unwrap();
    let servers = [ground.join(who(Role::Admission, "a")).await, ground.join(who(Role::Admission, "b")).await];
    let mut first = servers[0].serve(&pattern, 64).await.unwrap();
    let mut second = servers[1].serve(&pattern, 64).await.unwrap();
    let asker = ground.join(who(Role::ApiServer, "asker")).await;
    let mut handled = [0, 0];
    let asking = async {
        for _ in 0..60 {
            assert_eq!(ask(&asker, &subject, "", LONG_BUDGET).await.as_deref(), Ok("yes"));
        }
    };
    let serving = async {
        loop {
            let (ask, by) = tokio::select! {
                ask = first.next() => (ask.unwrap(), 0),
                ask = second.next() => (ask.unwrap(), 1),
            };
            handled[by] += 1;
            ask.answer(&"yes".to_owned()).await.unwrap();
        }
    };
    tokio::select! { () = asking => {}, () = serving => {} }
    assert!(handled[0] + handled[1] == 60 && handled.iter().all(|count| *count > 5), "{handled:?}");
}

pub(crate) async fn everybody_hears_a_hint(ground: &dyn Ground) {
    let pattern = Pattern::presence();
    let listeners = [ground.join(who(Role::Controllers, "a")).await, ground.join(who(Role::Inspector, "b")).await];
    let mut hears = [listeners[0].listen(&pattern, 8).await.unwrap(), listeners[1].listen(&pattern, 8).await.unwrap()];
    let node = ground.join(who(Role::Node, "ip-10-0-0-1.ec2.internal")).await;
    node.hint(&Subject::presence(node.identity()), &"here".to_owned()).unwrap();
    for hints in &mut hears {
        let HintEvent::Hint(hint) = timeout(LONG_BUDGET, hints.next()).await.unwrap() else { panic!("lost") };
        assert_eq!((hint.sender(), hint.subject().sender().as_ref()), (node.identity(), Some(node.identity())));
        assert_eq!(hint.body::<String>().as_deref(), Ok("here"));
    }
}

pub(crate) async fn no_room_is_answered_at_once(ground: &dyn Ground) {
    let (_holder, mut asks, asker, subject) = pair(ground, 1).await;
    let (first, ()) = tokio::join!(ask(&asker, &subject, "first", LONG_BUDGET), async {
        let began = Instant::now();
        let second = loop {
            // The first ask may arrive after the second, or not at all.
            match ask(&asker, &subject, "second", Duration::from_millis(200)).await {
                Err(AskError::Timeout) => assert!(began.elapsed() < LONG_BUDGET),
                other => break other,
            }
        };
        assert!(matches!(second, Err(AskError::Overloaded { retry_after }) if !retry_after.is_zero()), "{second:?}");
        loop {
            let ask = next(&mut asks).await;
            if ask.body::<String>().unwrap() == "first" {
                return ask.answer(&"done".to_owned()).await.unwrap();
            }
        }
    });
    assert!(matches!(first.as_deref(), Ok("done") | Err(AskError::Overloaded { .. })), "{first:?}");
}

pub(crate) async fn hints_without_room_are_lost_and_told(ground: &dyn Ground) {
    let (listener, sender) =
        (ground.join(who(Role::ApiServer, "l")).await, ground.join(who(Role::Controllers, "s")).await);
    let mut hints = listener.listen(&Pattern::hint("nodes").unwrap(), 2).await.unwrap();
    let mut other = listener.listen(&Pattern::hint("nodes").unwrap(), 64).await.unwrap();
    for n in 0..10 {
        sender.hint(&Subject::hint("nodes").unwrap(), &n.to_string()).unwrap();
    }
    for n in 0..10 {
        assert_eq!(heard(&mut other).await, Ok(n.to_string()), "one sender's order");
    }
    let mut lost = 0;
    let mut got = Vec::new();
    while lost + got.len() < 10 {
        match heard(&mut hints).await {
            Ok(text) => got.push(text),
            Err(count) => lost += usize::try_from(count.unwrap()).unwrap(),
        }
    }
    assert_eq!(got, ["0", "1"]);
}

pub(crate) async fn the_budget_shrinks_with_the_time_queued(ground: &dyn Ground) {
    let (holder, mut asks, asker, subject) = pair(ground, 8).await;
    let (answer, ()) = tokio::join!(ask(&asker, &subject, "", Duration::from_secs(10)), async {
        let arrived = async {
            while arrived_at(&holder) == 0 {
                sleep(Duration::from_millis(1)).await
            }
        };
        timeout(LONG_BUDGET, arrived).await.unwrap();
        sleep(Duration::from_millis(300)).await;
        let ask = next(&mut asks).await;
        assert!(ask.budget() <= Duration::from_millis(9_750), "{:?}", ask.budget());
        assert!(ask.budget() > Duration::from_secs(1), "{:?}", ask.budget());
        ask.answer(&String::new()).await.unwrap();
    });
    assert_eq!(answer.as_deref(), Ok(""));
}

/// Number of messages that this member has received.
fn arrived_at(bus: &Bus) -> u64 {
    bus.stats().iter().map(|kind| kind.heard_messages).sum()
}

pub(crate) async fn what_expired_in_the_queue_is_not_handed_out(ground: &dyn Ground) {
    let (holder, mut asks, asker, subject) = pair(ground, 8).await;
    assert_eq!(ask(&asker, &subject, "late", Duration::from_millis(100)).await, Err(AskError::Timeout));
    // The network time is not counted, so the receiver's deadline is a little later than the asker's.
    sleep(Duration::from_secs(1)).await;
    let (answer, ()) = tokio::join!(ask(&asker, &subject, "in time", LONG_BUDGET), async {
        let ask = next(&mut asks).await;
        assert_eq!(ask.body::<String>().as_deref(), Ok("in time"));
        ask.answer(&String::new()).await.unwrap();
    });
    assert_eq!(answer.as_deref(), Ok(""));
    assert_eq!(holder.stats()[0].expired, 1);
    assert_eq!(ask(&asker, &subject, "", Duration::ZERO).await, Err(AskError::Expired), "not even sent");
}

pub(crate) async fn silence_is_a_timeout(ground: &dyn Ground) {
    let (_holder, mut asks, asker, subject) = pair(ground, 8).await;
    let (answer, ask) = tokio::join!(ask(&asker, &subject, "", Duration::from_millis(200)), next(&mut asks));
    assert_eq!(answer, Err(AskError::Timeout));
    assert!(!AskError::Timeout.certainly_not_begun());
    drop(ask);
}

pub(crate) async fn an_abandoned_ask_is_told(ground: &dyn Ground) {
    let (_holder, mut asks, asker, subject) = pair(ground, 8).await;
    let (answer, ()) = tokio::join!(ask(&asker, &subject, "", LONG_BUDGET), async { drop(next(&mut asks).await) });
    let error = answer.unwrap_err();
    assert!(matches!(error, AskError::Failed { code: FailureCode::Abandoned, .. }) && !error.certainly_not_begun());
}

pub(crate) async fn who_stops_says_so_to_what_waits(ground: &dyn Ground) {
    let (holder, mut asks, asker, subject) = pair(ground, 8).await;
    // The first ask is taken, so the second certainly waits in the queue.
    let (first, second) = (ask(&asker, &subject, "1", LONG_BUDGET), ask(&asker, &subject, "2", LONG_BUDGET));
    let ending = async {
        let taken = next(&mut asks).await;
        let both = async {
            while arrived_at(&holder) < 2 {
                sleep(Duration::from_millis(1)).await
            }
        };
        timeout(LONG_BUDGET, both).await.unwrap();
        drop(asks);
        taken.answer(&"done".to_owned()).await.unwrap();
    };
    let (first, second, ()) = tokio::join!(first, second, ending);
    let mut answers = [first, second];
    answers.sort_by_key(Result::is_err);
    assert_eq!(answers, [Ok("done".to_owned()), Err(AskError::Stopping)]);
}

pub(crate) async fn who_stopped_is_not_there(ground: &dyn Ground) {
    let (_holder, mut asks, asker, subject) = pair(ground, 8).await;
    asks.stop();
    let gone = async {
        loop {
            match ask(&asker, &subject, "", Duration::from_millis(100)).await {
                Err(AskError::NobodyThere) => return,
                other => assert_eq!(other, Err(AskError::Timeout)),
            }
        }
    };
    timeout(LONG_BUDGET, gone).await.unwrap();
}

pub(crate) async fn another_epoch_is_another_subject(ground: &dyn Ground) {
    let (holder, mut asks, asker, _) = pair(ground, 8).await;
    for epoch in [4, 6] {
        assert_eq!(ask(&asker, &arbiter(epoch).0, "", LONG_BUDGET).await, Err(AskError::NobodyThere));
    }
    // The unit moves to another holder, and the first holder knows it.
    let mut later = holder.serve(&arbiter(6).1, 8).await.unwrap();
    let (old, new) = (arbiter(5).0, arbiter(6).0);
    let (old, new, ()) = tokio::join!(ask(&asker, &old, "", LONG_BUDGET), ask(&asker, &new, "", LONG_BUDGET), async {
        let deposed = next(&mut asks).await;
        deposed.decline(Decline::WrongEpoch { current: Some(Revision(6)) }).await.unwrap();
        next(&mut later).await.answer(&"held".to_owned()).await.unwrap();
    });
    assert_eq!(old, Err(AskError::WrongEpoch { current: Some(Revision(6)) }));
    assert_eq!(new.as_deref(), Ok("held"));
}

pub(crate) async fn every_refusal_arrives_as_what_it_is(ground: &dyn Ground) {
    let (_holder, mut asks, asker, subject) = pair(ground, 8).await;
    let retry_after = Duration::from_millis(70);
    let failed = |code, message: &str| AskError::Failed { code, message: message.to_owned() };
    let table = [
        (Decline::Overloaded { retry_after }, AskError::Overloaded { retry_after }),
        (Decline::WrongEpoch { current: None }, AskError::WrongEpoch { current: None }),
        (Decline::Expired, AskError::Expired),
        (Decline::Stopping, AskError::Stopping),
        (Decline::UnknownMethod, failed(FailureCode::UnknownMethod, "unknown method")),
        (Decline::Malformed("no pod".to_owned()), failed(FailureCode::Malformed, "no pod")),
        (Decline::Failed("no store".to_owned()), failed(FailureCode::Failed, "no store")),
    ];
    for (decline, wanted) in table {
        let (answer, ()) = tokio::join!(ask(&asker, &subject, "", LONG_BUDGET), async {
            next(&mut asks).await.decline(decline).await.unwrap();
        });
        let begun = matches!(wanted, AskError::Failed { code: FailureCode::Failed, .. });
        assert_eq!(wanted.certainly_not_begun(), !begun, "{wanted}");
        assert_eq!(answer, Err(wanted));
    }
}

pub(crate) async fn what_is_too_large_is_a_clear_error(ground: &dyn Ground) {
    let (_holder, mut asks, asker, subject) = pair(ground, 8).await;
    let large = "x".repeat(1024 * 1024);
    let error = ask(&asker, &subject, &large, LONG_BUDGET).await.unwrap_err();
    assert!(matches!(error, AskError::TooLarge { bytes, limit: 1_048_576 } if bytes > large.len()), "{error}");
    let hint = asker.hint(&Subject::hint("x").unwrap(), &large);
    assert!(matches!(hint, Err(HintError::TooLarge { .. })), "{hint:?}");
    let almost = large[..1_040_000].to_owned();
    let (answer, ()) = tokio::join!(ask(&asker, &subject, &almost, LONG_BUDGET), async {
        let ask = next(&mut asks).await;
        assert_eq!(ask.body::<String>().unwrap().len(), almost.len());
        let answered = ask.answer(&large).await;
        assert!(matches!(answered, Err(AnswerError::TooLarge { .. })), "{answered:?}");
    });
    let error = answer.unwrap_err();
    assert!(matches!(error, AskError::Failed { code: FailureCode::AnswerTooLarge, .. }), "{error}");
}

pub(crate) async fn bodies_are_of_the_type_they_say(ground: &dyn Ground) {
    let (_holder, mut asks, asker, subject) = pair(ground, 8).await;
    let (answer, ()) = tokio::join!(ask(&asker, &subject, "text", LONG_BUDGET), async {
        let ask = next(&mut asks).await;
        let decline = ask.body::<u64>().unwrap_err();
        ask.decline(decline).await.unwrap();
    });
    let error = answer.unwrap_err();
    assert!(matches!(error, AskError::Failed { code: FailureCode::Malformed, .. }), "{error}");
    let (answer, ()) = tokio::join!(ask(&asker, &subject, "text", LONG_BUDGET), async {
        next(&mut asks).await.answer(&7_u64).await.unwrap();
    });
    assert!(matches!(answer, Err(AskError::Garbled(_))), "{answer:?}");
}

pub(crate) async fn the_table_is_kept(ground: &dyn Ground) {
    let node = ground.join(who(Role::Node, "n1")).await;
    let scheduler = ground.join(who(Role::Scheduler, "s")).await;
    let denied = |subject: &Subject| Err(AskError::Denied(subject.to_string()));
    let other = who(Role::Node, "n2");
    for subject in
        [arbiter(5).0, Subject::member(&other, "drain").unwrap(), Subject::up("n2", Role::Controllers, "x").unwrap()]
    {
        assert_eq!(ask(&node, &subject, "", LONG_BUDGET).await, denied(&subject));
    }
    let voice = Subject::presence(&other);
    assert_eq!(node.hint(&voice, &String::new()), Err(HintError::Denied(voice.to_string())));
    let hint = Subject::hint("x").unwrap();
    assert_eq!(ask(&scheduler, &hint, "", LONG_BUDGET).await, denied(&hint), "it carries no asks");
    for pattern in [arbiter(5).1, Pattern::member(&other), Pattern::member(scheduler.identity())] {
        assert_eq!(node.serve(&pattern, 1).await.unwrap_err(), ListenError::Denied(pattern.to_string()));
    }
    let presence = Pattern::presence();
    assert_eq!(node.listen(&presence, 1).await.unwrap_err(), ListenError::Denied(presence.to_string()));
    assert_eq!(scheduler.serve(&presence, 1).await.unwrap_err(), ListenError::OtherSort(presence.to_string()));
}

pub(crate) async fn a_trace_goes_on(ground: &dyn Ground) {
    let (_holder, mut asks, asker, subject) = pair(ground, 8).await;
    let context = traceparent::parse("00-0000000000000000000000000000feed-0000000000000007-01").unwrap();
    let asking = traces::within(Some(context.clone()), ask(&asker, &subject, "", LONG_BUDGET));
    let (answer, ()) = tokio::join!(asking, async {
        let ask = next(&mut asks).await;
        assert_eq!(ask.trace(), Some(&context), "the asker's span is the parent of the work");
        ask.answer(&String::new()).await.unwrap();
    });
    answer.unwrap();
    let (answer, trace) = tokio::join!(ask(&asker, &subject, "", LONG_BUDGET), async {
        let ask = next(&mut asks).await;
        let trace = ask.trace().cloned();
        ask.answer(&String::new()).await.unwrap();
        trace
    });
    answer.unwrap();
    let other = trace.expect("the root of another");
    assert_ne!(other.trace_id(), context.trace_id());
    assert!(!other.is_sampled(), "nobody has recorded its root");
}

pub(crate) async fn a_hint_names_the_span_that_sends_it(ground: &dyn Ground) {
    let listener = ground.join(who(Role::Controllers, "listener")).await;
    let mut hints = listener.listen(&Pattern::hint("nodes").unwrap(), 64).await.unwrap();
    let (sender, subject) = (ground.join(who(Role::ApiServer, "sender")).await, Subject::hint("nodes").unwrap());
    let context = traceparent::parse("00-0000000000000000000000000000feed-0000000000000008-01").unwrap();
    let sending = async { sender.hint(&subject, &"inside a span".to_owned()) };
    traces::within(Some(context.clone()), sending).await.unwrap();
    sender.hint(&subject, &"outside".to_owned()).unwrap();
    for expected in [Some(context), None] {
        let HintEvent::Hint(hint) = timeout(LONG_BUDGET, hints.next()).await.unwrap() else { panic!("lost") };
        assert_eq!(hint.trace(), expected.as_ref(), "{:?}", hint.body::<String>());
    }
}

pub(crate) async fn nothing_is_kept_for_later(ground: &dyn Ground) {
    let (holder, mut asks, asker, subject) = pair(ground, 64).await;
    ground.stop().await;
    for bus in [&holder, &asker] {
        timeout(LONG_BUDGET, bus.wait_for(|state| !state.connected)).await.unwrap();
    }
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(ask(&asker, &subject, "meanwhile", LONG_BUDGET).await, Err(AskError::Disconnected));
        assert_eq!(asker.hint(&Subject::hint("x").unwrap(), &String::new()), Err(HintError::Disconnected));
    }
    assert!(began.elapsed() < LONG_BUDGET / 2, "{:?}", began.elapsed());
    ground.start().await;
    for bus in [&holder, &asker] {
        let state = timeout(LONG_BUDGET, bus.wait_for(|state| state.connected)).await.unwrap();
        assert_eq!(state.generation, 2);
    }
    let (answer, ()) = tokio::join!(ask_until_there(&asker, &subject), async {
        let ask = next(&mut asks).await;
        assert_eq!(ask.body::<String>().as_deref(), Ok("again"));
        ask.answer(&"yes".to_owned()).await.unwrap();
    });
    assert_eq!(answer, "yes");
}

pub(crate) async fn who_waits_when_the_connection_breaks_knows_at_once(ground: &dyn Ground) {
    let (_holder, mut asks, asker, subject) = pair(ground, 8).await;
    let began = Instant::now();
    let (answer, ()) = tokio::join!(ask(&asker, &subject, "", LONG_BUDGET * 10), async {
        let taken = next(&mut asks).await;
        ground.stop().await;
        // Keeps the ask unanswered until the asker has noticed the loss: the result must not come from an answer.
        timeout(LONG_BUDGET, asker.wait_for(|state| !state.connected)).await.unwrap();
        let answered = taken.answer(&String::new()).await;
        assert!(matches!(answered, Ok(()) | Err(AnswerError::Gone)), "{answered:?}");
    });
    assert_eq!(answer, Err(AskError::Lost));
    assert!(began.elapsed() < LONG_BUDGET * 5, "{:?}", began.elapsed());
}

pub(crate) async fn listeners_hear_again_and_know_that_they_missed(ground: &dyn Ground) {
    let (listener, sender) =
        (ground.join(who(Role::ApiServer, "l")).await, ground.join(who(Role::Controllers, "s")).await);
    let mut hints = listener.listen(&Pattern::hint("nodes").unwrap(), 64).await.unwrap();
    ground.stop().await;
    timeout(LONG_BUDGET, listener.wait_for(|state| !state.connected)).await.unwrap();
    ground.start().await;
    for bus in [&listener, &sender] {
        timeout(LONG_BUDGET, bus.wait_for(|state| state.generation == 2 && state.connected)).await.unwrap();
    }
    assert_eq!(heard(&mut hints).await, Err(None));
    let subject = Subject::hint("nodes").unwrap();
    sender.hint(&subject, &"after".to_owned()).unwrap();
    assert_eq!(heard(&mut hints).await.as_deref(), Ok("after"));
}

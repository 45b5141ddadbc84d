//! The trace context travels with a message, and its span ends when the work ends.

use std::sync::Arc;

use parking_lot::Mutex;
use tracing::{Subscriber, span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::{Actor, ActorKind, Ctx, Failure, Options, Reply, System, Universe, clock};

static ECHO: ActorKind = ActorKind { name: "span.echo", ..ActorKind::DEFAULT };

struct Echo;

impl Actor for Echo {
    type Message = Reply<()>;
    type State = ();

    async fn start(&self, _: &Ctx<Self::Message>) -> Result<(), Failure> {
        Ok(())
    }

    async fn handle(&self, (): &mut (), reply: Reply<()>, _: &Ctx<Self::Message>) -> Result<(), Failure> {
        tracing::info_span!("inside").in_scope(|| reply.send(()));
        Ok(())
    }
}

/// Notes each span as `parent>span` when it opens and `/span` when it closes.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Notes {
    fn on_new_span(&self, _: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let span = context.span(id);
        let parent = span.as_ref().and_then(|span| span.parent());
        let name = |span: Option<&str>| span.unwrap_or("-").to_owned();
        let (parent, span) = (name(parent.map(|p| p.name())), name(span.map(|s| s.name())));
        self.0.lock().push(format!("{parent}>{span}"));
    }

    fn on_close(&self, id: span::Id, context: Context<'_, S>) {
        self.0.lock().push(format!("/{}", context.span(&id).map_or("-", |span| span.name())));
    }
}

#[test]
fn a_message_is_handled_inside_the_span_it_was_sent_in() {
    let notes = Notes::default();
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(notes.clone()));
    Universe::run(1, || async {
        let system = System::start(Options::default()).await.unwrap();
        let echo = system.spawn(&ECHO, "e", Echo).await.unwrap();
        clock::sleep(std::time::Duration::from_secs(1)).await;
        notes.0.lock().clear();
        let span = tracing::info_span!("request");
        let ask = echo.ask(|reply| reply, clock::after(std::time::Duration::from_secs(1)));
        tracing::Instrument::instrument(ask, span).await.unwrap();
        clock::sleep(std::time::Duration::from_secs(1)).await;
    });
    let seen = notes.0.lock().clone();
    assert_eq!(seen[..3], ["->request", "request>actor", "actor>inside"]);
    for closed in ["/inside", "/actor", "/request"] {
        assert!(seen.iter().any(|note| note == closed), "{closed} is missing: {seen:?}");
    }
}

#[test]
fn an_actor_does_not_hold_the_span_open_that_spawned_it() {
    let notes = Notes::default();
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(notes.clone()));
    Universe::run(2, || async {
        let system = System::start(Options::default()).await.unwrap();
        let spawn = system.spawn(&ECHO, "e", Echo);
        let echo = tracing::Instrument::instrument(spawn, tracing::info_span!("request")).await.unwrap();
        echo.running(clock::after(std::time::Duration::from_secs(1))).await.unwrap();
        let closed = notes.0.lock().iter().any(|note| note == "/request");
        assert!(closed, "still open: {:?}", notes.0.lock());
    });
}

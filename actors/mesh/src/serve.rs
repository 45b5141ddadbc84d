//! The loop of a [`Service`]: receives requests and gives each to its method.

use std::sync::Arc;
use std::time::Duration;

use oarlock_bus::{Ask, Asks, Bus, Decline, Pattern, Role};
use oarlock_meta::Revision;
use oarlock_runtime::{Failure, Instant, LoopCtx, clock};
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces;
use oarlock_telemetry::traces::opentelemetry::trace::SpanContext;
use tracing::Instrument;

use crate::placement::Placement;
use crate::service::{At, Service};
use crate::unit::Unit;

/// The pause that a declined sender is asked to make when the service is overloaded.
const RETRY_AFTER: Duration = Duration::from_millis(25);
/// The time for which requests at a lost unit's old epoch are declined rather than not received.
const OLD_EPOCH_TIME: Duration = Duration::from_secs(5);

/// The next event of a unit service's loop.
enum Turn {
    Placement,
    Ask(Ask),
    OldEpochEnded,
}

impl Service {
    /// Answers requests until the actor is stopped. Waiting requests are then declined; requests in progress are finished.
    ///
    /// # Errors
    /// When the table of subjects does not allow this member to answer the service's subjects.
    pub(crate) async fn run(self: Arc<Self>, ctx: LoopCtx, bus: Bus) -> Result<(), Failure> {
        match &self.at {
            At::Pattern(pattern) => {
                let mut asks = bus.serve(pattern, self.waiting).await?;
                while let Some(Some(ask)) = ctx.or_stop(asks.next()).await {
                    self.handle(&ctx, ask);
                }
            }
            At::Unit { role, unit, placement } => self.follow(&ctx, &bus, *role, unit, placement).await?,
        }
        Ok(())
    }

    /// Answers requests at the unit's epoch whenever this process holds the unit.
    async fn follow(
        &self,
        ctx: &LoopCtx,
        bus: &Bus,
        role: Role,
        unit: &Unit,
        placement: &Placement,
    ) -> Result<(), Failure> {
        let mut changes = placement.follow();
        let mut held: Option<(Revision, Asks)> = None;
        let mut lost: Option<(Instant, Asks)> = None;
        loop {
            let epoch = epoch(placement, unit);
            if epoch != held.as_ref().map(|(epoch, _)| *epoch) {
                if let Some((_, asks)) = held.take() {
                    lost = Some((clock::after(OLD_EPOCH_TIME), asks));
                }
                if let Some(epoch) = epoch {
                    held = Some((epoch, bus.serve(&Pattern::unit(role, unit.as_str(), epoch)?, self.waiting).await?));
                }
            }
            let until = lost.as_ref().map_or_else(clock::never, |(until, _)| *until);
            let turn = async {
                tokio::select! {
                    biased;
                    () = changes.next() => Turn::Placement,
                    ask = next(held.as_mut().map(|(_, asks)| asks)) => Turn::Ask(ask),
                    ask = next(lost.as_mut().map(|(_, asks)| asks)) => Turn::Ask(ask),
                    () = clock::sleep_until(until) => Turn::OldEpochEnded,
                }
            };
            match ctx.or_stop(turn).await {
                None => return Ok(()),
                Some(Turn::Placement) => {}
                Some(Turn::Ask(ask)) => self.handle(ctx, ask),
                Some(Turn::OldEpochEnded) => lost = None,
            }
        }
    }

    /// Runs a request's method as a task, or declines the request at once.
    fn handle(&self, ctx: &LoopCtx, ask: Ask) {
        if let At::Unit { unit, placement, .. } = &self.at {
            let current = epoch(placement, unit);
            if current != ask.subject().epoch() && !seeded_bug!("any_epoch_will_do") {
                return ask.decline_now(Decline::WrongEpoch { current });
            }
        }
        let Some(method) = self.methods.get(ask.subject().method()) else {
            return ask.decline_now(Decline::UnknownMethod);
        };
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            return ask.decline_now(Decline::Overloaded { retry_after: RETRY_AFTER });
        };
        let (deadline, context) = (clock::after(ask.budget()), ask.trace().cloned());
        let span = tracing::info_span!(
            "ask",
            subject = ask.subject().as_str(),
            sender = %ask.sender(),
            trace = context.as_ref().map(|context| tracing::field::display(context.trace_id()))
        );
        // An ask outside every span is not sampled and makes none here: polls would displace the ring's requests.
        let own = context
            .as_ref()
            .filter(|context| traces::exporting() && context.is_sampled())
            .map(|context| span_of(&ask, context));
        let handling = method(ask).instrument(own.unwrap_or_else(tracing::Span::none));
        let handling = traces::within(context, handling).instrument(span);
        let work = async move {
            handling.await;
            drop(permit);
        };
        // A closed gate drops the request; the drop sends the sender a failure.
        if let Err(closed) = ctx.spawn_until("ask", deadline, work) {
            tracing::debug!(actor = ctx.name(), %closed, "ask not handled");
        }
    }
}

/// Returns the span of an ask, whose parent is the asker's.
fn span_of(ask: &Ask, asker: &SpanContext) -> tracing::Span {
    let span = tracing::info_span!(
        target: traces::TARGET,
        parent: None,
        "answer",
        otel.kind = "server",
        rpc.method = ask.subject().method(),
        oarlock.bus.sender = %ask.sender()
    );
    traces::adopt(&span, asker.clone());
    span
}

/// Returns the epoch of this process's claim to a unit; `None` without a fenced claim.
fn epoch(placement: &Placement, unit: &Unit) -> Option<Revision> {
    placement.claim(unit)?.fence.map(|fence| fence.epoch)
}

/// Waits for the next request; for ever if `asks` is `None` or has ended.
async fn next(asks: Option<&mut Asks>) -> Ask {
    if let Some(asks) = asks
        && let Some(ask) = asks.next().await
    {
        return ask;
    }
    std::future::pending().await
}

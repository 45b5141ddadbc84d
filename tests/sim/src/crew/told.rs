//! Reads the API server's log of writes under claims (target `oarlock_apiserver::fence`). Only the server knows which requests wrote: an update without a change is
//! answered with a state that another client may have written, and breaks no rule if its claim is stale.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use oarlock_check::history::Claim;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

const TARGET: &str = "oarlock_apiserver::fence";
const WRITTEN: &str = "written under a claim";

/// Collects the log lines of this thread, which runs one seed, while the value lives.
pub(super) struct ClaimLog {
    claims: Claims,
    _listens: DefaultGuard,
}

impl ClaimLog {
    pub(super) fn listen() -> Self {
        let claims = Claims::default();
        let own = claims.clone().with_filter(Targets::new().with_target(TARGET, LevelFilter::DEBUG));
        Self { claims, _listens: tracing_subscriber::registry().with(own).set_default() }
    }

    /// Returns every write in the log lines.
    pub(super) fn claims(self) -> Vec<Claim> {
        std::mem::take(&mut *self.claims.0.lock())
    }
}

#[derive(Clone, Default)]
struct Claims(Arc<Mutex<Vec<Claim>>>);

impl<S: Subscriber> Layer<S> for Claims {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if fields.0["message"] == WRITTEN {
            self.0.lock().push(fields.claim());
        }
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Fields {
    fn claim(&self) -> Claim {
        let number = |name| self.0[name].parse().unwrap();
        let key = Some(self.0["key"].trim_start_matches("/registry/").to_owned());
        Claim { unit: self.0["unit"].clone(), epoch: number("epoch"), revision: number("revision"), key }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

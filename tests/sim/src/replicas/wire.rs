//! A connection between two parties: each message takes time, and may be late, held until the connection is healed, or lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_runtime::{Rng, clock};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How often each fault had an effect: changed a message that another party received, or its delay. A fault without an effect has tested nothing.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<BTreeMap<&'static str, u64>>);

impl Marks {
    pub(crate) fn note(&self, fault: &'static str, times: u64) {
        if times > 0 {
            *self.0.lock().entry(fault).or_default() += times;
        }
    }

    pub(crate) fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().clone()
    }
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Answer,
    /// Events of a watch or a tail, which no single request asked for.
    Stream,
}

pub(crate) const EVERYTHING: &[Kind] = &[Kind::Request, Kind::Answer, Kind::Stream];

/// What a fault does to a message, in increasing severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// The message is delayed by up to this time.
    Late(Duration),
    /// The message arrives when the wire is healed.
    Held,
    /// The message never arrives.
    Lost,
}

#[derive(Debug)]
struct Cut {
    id: u64,
    fault: &'static str,
    what: &'static [Kind],
    way: Way,
}

/// A connection between two parties on which messages can be delayed, held or lost.
#[derive(Debug)]
pub(crate) struct Wire {
    cuts: Mutex<(u64, Vec<Cut>)>,
    healed: Notify,
    rng: Mutex<Rng>,
    marks: Arc<Marks>,
}

impl Wire {
    pub(crate) fn new(rng: Rng, marks: Arc<Marks>) -> Self {
        Self { cuts: Mutex::default(), healed: Notify::new(), rng: Mutex::new(rng), marks }
    }

    /// Applies a fault to messages of these kinds until [`Wire::heal`]; returns the fault's id.
    pub(crate) fn cut(&self, fault: &'static str, what: &'static [Kind], way: Way) -> u64 {
        let mut cuts = self.cuts.lock();
        cuts.0 += 1;
        let id = cuts.0;
        cuts.1.push(Cut { id, fault, what, way });
        id
    }

    /// Ends a fault.
    pub(crate) fn heal(&self, id: u64) {
        self.cuts.lock().1.retain(|cut| cut.id != id);
        self.healed.notify_waiters();
    }

    /// Carries a message; returns whether the message arrives.
    pub(crate) async fn pass(&self, kind: Kind) -> bool {
        let travel = 200 + self.rng.lock().below(2800);
        clock::sleep(Duration::from_micros(travel)).await;
        let mut told = false;
        loop {
            let healed = self.healed.notified();
            tokio::pin!(healed);
            healed.as_mut().enable();
            let Some((way, fault)) = self.worst(kind) else { return true };
            self.marks.note(fault, u64::from(!std::mem::replace(&mut told, true)));
            match way {
                Way::Late(most) => {
                    let late = self.rng.lock().jitter(most, 100);
                    clock::sleep(late).await;
                    return true;
                }
                Way::Held => healed.await,
                Way::Lost => return false,
            }
        }
    }

    fn worst(&self, kind: Kind) -> Option<(Way, &'static str)> {
        let cuts = self.cuts.lock();
        cuts.1.iter().filter(|cut| cut.what.contains(&kind)).map(|cut| (cut.way, cut.fault)).max()
    }
}

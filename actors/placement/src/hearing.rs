//! Decides from received heartbeats which members are silent on the bus.
//!
//! A silent member loses units long before its Lease expires, so false suspicion must be rare. A process that does not receive its own heartbeats
//! suspects no member: after a pause of the process, or a lost connection, it must first receive a heartbeat of its own, and then every member's time
//! starts again. A member gets more time if its Lease has the bus label but no heartbeat was received over this connection yet: the member may be
//! reconnecting. A member whose Lease lacks the label is judged by its Lease alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use oarlock_runtime::Instant;
use oarlock_schema::Str;
use oarlock_seeded_bug::seeded_bug;

/// The time without a heartbeat after which a member is asked whether it is present: one period ([`oarlock_mesh::HEARTBEAT_PERIOD`]) and some delay. If the
/// process has ended, the bus answers that there is no responder.
const ASK_AFTER: Duration = Duration::from_millis(350);
/// The time without a heartbeat, four periods, after which a member counts as silent even if its connection exists: it is paused or partitioned.
const SILENT_AFTER: Duration = Duration::from_millis(1000);
/// The extra time of a member without any heartbeat over this connection: a member that lost its connection tries to reconnect at least every two seconds.
const RECONNECT_TIME: Duration = Duration::from_millis(2000);

/// The heartbeats that this process has received over the present connection.
#[derive(Debug)]
pub(crate) struct Hearing {
    me: Str,
    /// When this process last received its own heartbeat over the present connection.
    own: Option<Instant>,
    others: BTreeMap<Str, Other>,
}

/// The heartbeats of another member.
#[derive(Clone, Copy, Debug)]
struct Other {
    /// Whether a heartbeat was received over the present connection.
    heard: bool,
    /// The time of the last heartbeat, or the time from which silence is counted.
    last: Instant,
    asked: bool,
    /// Whether the bus has answered that no process with the member's name is connected.
    absent: bool,
}

impl Hearing {
    /// The state of the member `me` before any heartbeat.
    pub(crate) fn new(me: Str) -> Self {
        Self { me, own: None, others: BTreeMap::new() }
    }

    /// Forgets all heartbeats, because the connection was lost or replaced.
    pub(crate) fn begin_anew(&mut self) {
        self.own = None;
        self.others.clear();
    }

    /// Sets the members that should send heartbeats; all others are forgotten.
    pub(crate) fn expect(&mut self, members: &BTreeSet<Str>, now: Instant) {
        self.others.retain(|member, _| members.contains(member));
        for member in members.iter().filter(|member| **member != self.me) {
            self.others.entry(member.clone()).or_insert_with(|| Other::from(false, now + RECONNECT_TIME));
        }
    }

    /// Records a member's heartbeat.
    pub(crate) fn beat(&mut self, member: &str, now: Instant) {
        if member == self.me.as_str() {
            if !self.hears(now) {
                self.others.values_mut().for_each(|other| *other = Other::from(other.heard, other.last.max(now)));
            }
            self.own = Some(now);
        } else {
            self.others.insert(member.into(), Other::from(true, now));
        }
    }

    /// Returns the members to ask whether they are present; each once per silence.
    pub(crate) fn late(&mut self, now: Instant) -> Vec<Str> {
        if !self.hears(now) {
            return Vec::new();
        }
        let late = self.others.iter_mut().filter(|(_, other)| !other.asked && now - other.last >= ASK_AFTER);
        late.map(|(member, other)| {
            other.asked = true;
            member.clone()
        })
        .collect()
    }

    /// Records the bus's answer that no process with the member's name is connected.
    pub(crate) fn absent(&mut self, member: &Str, now: Instant) {
        // A member whose heartbeat has arrived since the question is present.
        if let Some(other) = self.others.get_mut(member).filter(|other| now - other.last >= ASK_AFTER) {
            other.absent = true;
        }
    }

    /// Returns the members that are silent now.
    pub(crate) fn silent(&self, now: Instant) -> BTreeSet<Str> {
        if !self.hears(now) && !seeded_bug!("deaf_suspects_others") {
            return BTreeSet::new();
        }
        let believed = |other: &Other| !other.heard && seeded_bug!("unheard_believed");
        let silent = |other: &Other| (other.absent || now - other.last >= SILENT_AFTER) && !believed(other);
        self.others.iter().filter(|(_, other)| silent(other)).map(|(member, _)| member.clone()).collect()
    }

    /// The number of other members that are not silent; zero while this process does not receive its own heartbeats.
    pub(crate) fn others(&self, now: Instant) -> usize {
        let silent = self.silent(now);
        let heard = self.others.iter().filter(|(member, other)| other.heard && !silent.contains(*member));
        if self.hears(now) { heard.count() } else { 0 }
    }

    /// Returns the next time at which a member may become late or silent without a further heartbeat.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let steps = |other: &Other| [other.last + ASK_AFTER, other.last + SILENT_AFTER];
        let own = self.own.map(|own| own + SILENT_AFTER);
        self.others.values().flat_map(steps).chain(own).filter(|at| *at > now).min()
    }

    fn hears(&self, now: Instant) -> bool {
        self.own.is_some_and(|own| now - own < SILENT_AFTER)
    }
}

impl Other {
    fn from(heard: bool, last: Instant) -> Self {
        Self { heard, last, asked: false, absent: false }
    }
}

#[cfg(test)]
mod tests {
    use oarlock_runtime::{Universe, clock};

    use super::*;

    const TICK: Duration = Duration::from_millis(50);

    /// Lets the members `who` send heartbeats for `ticks`; returns whether `b` is silent at the end.
    async fn listen(hearing: &mut Hearing, who: &[&str], ticks: u32) -> bool {
        for _ in 0..ticks {
            clock::sleep(TICK).await;
            who.iter().for_each(|member| hearing.beat(member, clock::now()));
        }
        hearing.silent(clock::now()).contains("b")
    }

    fn heard() -> Hearing {
        let mut hearing = Hearing::new("a".into());
        hearing.beat("a", clock::now());
        hearing.beat("b", clock::now());
        hearing
    }

    #[test]
    fn who_misses_four_beats_is_silent_until_it_is_heard_again() {
        Universe::sweep(0..1, || async {
            let mut hearing = heard();
            assert!(!listen(&mut hearing, &["a"], 19).await);
            assert!(listen(&mut hearing, &["a"], 1).await);
            assert!(!listen(&mut hearing, &["a", "b"], 1).await);
        });
    }

    #[test]
    fn who_is_late_is_asked_once_and_believed_gone_when_nobody_is_there() {
        Universe::sweep(0..1, || async {
            let mut hearing = heard();
            listen(&mut hearing, &["a"], 6).await;
            assert!(hearing.late(clock::now()).is_empty());
            listen(&mut hearing, &["a"], 1).await;
            assert_eq!(hearing.late(clock::now()), ["b"]);
            assert!(hearing.late(clock::now()).is_empty());
            hearing.absent(&"b".into(), clock::now());
            assert!(hearing.silent(clock::now()).contains("b"));
            // A late answer is ignored when a heartbeat of the member has arrived since.
            hearing.beat("b", clock::now());
            hearing.absent(&"b".into(), clock::now());
            assert!(hearing.silent(clock::now()).is_empty());
        });
    }

    #[test]
    fn who_does_not_hear_itself_suspects_nobody_and_begins_anew() {
        Universe::sweep(0..1, || async {
            let mut hearing = heard();
            assert!(!listen(&mut hearing, &[], 1200).await, "a minute without the bus");
            assert!(hearing.late(clock::now()).is_empty());
            assert!(!listen(&mut hearing, &["a"], 20).await, "the other has all its time again");
            assert!(listen(&mut hearing, &["a"], 1).await);
            hearing.begin_anew();
            assert!(!listen(&mut hearing, &["a"], 100).await, "nobody expects it");
        });
    }

    #[test]
    fn who_is_expected_and_never_heard_is_missed_when_it_could_have_come_back() {
        Universe::sweep(0..1, || async {
            let (mut hearing, members) = (heard(), BTreeSet::from(["a".into(), "b".into()]));
            hearing.begin_anew();
            hearing.expect(&members, clock::now());
            assert!(!listen(&mut hearing, &["a"], 59).await);
            assert_eq!(hearing.others(clock::now()), 0);
            assert!(listen(&mut hearing, &["a"], 1).await, "three seconds");
            assert_eq!(hearing.late(clock::now()), ["b"], "and asked, which is quicker");
            hearing.expect(&members, clock::now());
            assert!(!listen(&mut hearing, &["a", "b"], 1).await, "here it is");
            assert_eq!(hearing.others(clock::now()), 1);
            hearing.expect(&BTreeSet::from(["a".into()]), clock::now());
            assert!(!listen(&mut hearing, &["a"], 100).await, "nobody expects it any more");
        });
    }
}

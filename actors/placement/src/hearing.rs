//! Who is silent on the bus, as heard from here.
//!
//! Silence moves work long before a Lease runs out, so it is not believed easily. Whoever does not hear itself hears nobody and suspects nobody: a
//! process that slept, or whose connection is gone, first hears itself again, and then everybody has all the time again. Who is expected, because its
//! Lease says that it speaks here, and was never heard over this connection has longer: it may be on its way back. Who does not say so is judged by its
//! Lease alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use oarlock_runtime::Instant;
use oarlock_schema::Str;
use oarlock_seeded_bug::seeded_bug;

/// A member that was not heard for so long, a beat ([`oarlock_mesh::BEAT`]) and what it may be late, is asked: one that is no more is said not to be there.
const LATE: Duration = Duration::from_millis(350);
/// A member that was not heard for so long, four beats, is silent, whatever its connection says: it sleeps, or is cut off.
const SILENCE: Duration = Duration::from_millis(1000);
/// One that was never heard has so much more: those whose connection was lost try at least every two seconds to make another.
const RETURN: Duration = Duration::from_millis(2000);

/// See the module text.
#[derive(Debug)]
pub(crate) struct Hearing {
    me: Str,
    /// When this process last heard itself over the present connection.
    own: Option<Instant>,
    others: BTreeMap<Str, Other>,
}

#[derive(Clone, Copy, Debug)]
struct Other {
    /// It was heard over the present connection.
    heard: bool,
    /// When it was heard last, or counts as having been.
    last: Instant,
    asked: bool,
    /// The bus knows nobody of its name.
    absent: bool,
}

impl Hearing {
    /// Of the member `me`.
    pub(crate) fn new(me: Str) -> Self {
        Self { me, own: None, others: BTreeMap::new() }
    }

    /// The connection is another one, or gone: nothing was heard over it yet.
    pub(crate) fn begin_anew(&mut self) {
        self.own = None;
        self.others.clear();
    }

    /// These, and no others, should be heard.
    pub(crate) fn expect(&mut self, members: &BTreeSet<Str>, now: Instant) {
        self.others.retain(|member, _| members.contains(member));
        for member in members.iter().filter(|member| **member != self.me) {
            self.others.entry(member.clone()).or_insert_with(|| Other::from(false, now + RETURN));
        }
    }

    /// A member was heard.
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

    /// Who is to be asked whether it is there; each once for each silence.
    pub(crate) fn late(&mut self, now: Instant) -> Vec<Str> {
        if !self.hears(now) {
            return Vec::new();
        }
        let late = self.others.iter_mut().filter(|(_, other)| !other.asked && now - other.last >= LATE);
        late.map(|(member, other)| {
            other.asked = true;
            member.clone()
        })
        .collect()
    }

    /// The bus said that nobody is there of this name.
    pub(crate) fn absent(&mut self, member: &Str, now: Instant) {
        // One that was heard meanwhile is there.
        if let Some(other) = self.others.get_mut(member).filter(|other| now - other.last >= LATE) {
            other.absent = true;
        }
    }

    /// Who is silent now.
    pub(crate) fn silent(&self, now: Instant) -> BTreeSet<Str> {
        if !self.hears(now) && !seeded_bug!("deaf_suspects_others") {
            return BTreeSet::new();
        }
        let believed = |other: &Other| !other.heard && seeded_bug!("unheard_believed");
        let silent = |other: &Other| (other.absent || now - other.last >= SILENCE) && !believed(other);
        self.others.iter().filter(|(_, other)| silent(other)).map(|(member, _)| member.clone()).collect()
    }

    /// How many others are heard; none by who does not hear itself.
    pub(crate) fn others(&self, now: Instant) -> usize {
        let silent = self.silent(now);
        let heard = self.others.iter().filter(|(member, other)| other.heard && !silent.contains(*member));
        if self.hears(now) { heard.count() } else { 0 }
    }

    /// When something may change although nobody is heard.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let steps = |other: &Other| [other.last + LATE, other.last + SILENCE];
        let own = self.own.map(|own| own + SILENCE);
        self.others.values().flat_map(steps).chain(own).filter(|at| *at > now).min()
    }

    fn hears(&self, now: Instant) -> bool {
        self.own.is_some_and(|own| now - own < SILENCE)
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

    /// What is heard in `ticks`, and whether `b` is silent at the end.
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
            // An answer that comes late says nothing about one that has been heard since.
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

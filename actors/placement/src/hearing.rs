//! Who is silent on the bus, as heard from here.
//!
//! Silence moves work long before a Lease runs out, so it is not believed easily. Whoever does not hear itself hears nobody and suspects nobody: a
//! process that slept, or whose connection is gone, first hears itself again, and then everybody has all the time again. Who was never heard
//! over this connection is judged by its Lease alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use oarlock_runtime::Instant;
use oarlock_schema::Str;

/// A member that was not heard for so long, a beat ([`oarlock_mesh::BEAT`]) and what it may be late, is asked: one that is no more is said not to be there.
const LATE: Duration = Duration::from_millis(350);
/// A member that was not heard for so long, four beats, is silent, whatever its connection says: it sleeps, or is cut off.
const SILENCE: Duration = Duration::from_millis(1000);

/// See the module text.
#[derive(Debug)]
pub(crate) struct Hearing {
    me: Str,
    /// When this process last heard itself over the present connection.
    own: Option<Instant>,
    heard: BTreeMap<Str, Heard>,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    last: Instant,
    asked: bool,
    /// The bus knows nobody of its name.
    absent: bool,
}

impl Hearing {
    /// Of the member `me`.
    pub(crate) fn new(me: Str) -> Self {
        Self { me, own: None, heard: BTreeMap::new() }
    }

    /// The connection is another one, or gone: nothing was heard over it yet.
    pub(crate) fn begin_anew(&mut self) {
        self.own = None;
        self.heard.clear();
    }

    /// Whoever is not one of `members` any more is forgotten.
    pub(crate) fn retain(&mut self, is_member: impl Fn(&Str) -> bool) {
        self.heard.retain(|member, _| is_member(member));
    }

    /// A member was heard.
    pub(crate) fn beat(&mut self, member: &str, now: Instant) {
        if member == self.me.as_str() {
            if !self.hears(now) {
                self.heard.values_mut().for_each(|heard| *heard = Heard::at(now));
            }
            self.own = Some(now);
        } else {
            self.heard.insert(member.into(), Heard::at(now));
        }
    }

    /// Who is to be asked whether it is there; each once for each silence.
    pub(crate) fn late(&mut self, now: Instant) -> Vec<Str> {
        if !self.hears(now) {
            return Vec::new();
        }
        let late = self.heard.iter_mut().filter(|(_, heard)| !heard.asked && now - heard.last >= LATE);
        late.map(|(member, heard)| {
            heard.asked = true;
            member.clone()
        })
        .collect()
    }

    /// The bus said that nobody is there of this name.
    pub(crate) fn absent(&mut self, member: &Str, now: Instant) {
        // One that was heard meanwhile is there.
        if let Some(heard) = self.heard.get_mut(member).filter(|heard| now - heard.last >= LATE) {
            heard.absent = true;
        }
    }

    /// Who is silent now.
    pub(crate) fn silent(&self, now: Instant) -> BTreeSet<Str> {
        #[cfg(not(seeded_bug = "deaf_suspects_others"))]
        if !self.hears(now) {
            return BTreeSet::new();
        }
        let silent = |heard: &Heard| heard.absent || now - heard.last >= SILENCE;
        self.heard.iter().filter(|(_, heard)| silent(heard)).map(|(member, _)| member.clone()).collect()
    }

    /// How many others are heard; none by who does not hear itself.
    pub(crate) fn others(&self, now: Instant) -> usize {
        if self.hears(now) { self.heard.len() - self.silent(now).len() } else { 0 }
    }

    /// When something may change although nobody is heard.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let steps = |heard: &Heard| [heard.last + LATE, heard.last + SILENCE];
        let own = self.own.map(|own| own + SILENCE);
        self.heard.values().flat_map(steps).chain(own).filter(|at| *at > now).min()
    }

    fn hears(&self, now: Instant) -> bool {
        self.own.is_some_and(|own| now - own < SILENCE)
    }
}

impl Heard {
    fn at(last: Instant) -> Self {
        Self { last, asked: false, absent: false }
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
            assert!(!listen(&mut hearing, &["a"], 100).await, "never heard over this connection");
        });
    }
}

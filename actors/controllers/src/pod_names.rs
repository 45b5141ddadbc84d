//! The names under which a controller has asked for pods without learning whether they exist.
//!
//! A request whose answer is lost may have made a pod, or may still make one, and no cache shows which. A second request under another name could make a second pod;
//! under the same name at most one of the two succeeds. So a name stays open from its first request until an answer or a cache shows what became of it, and the next
//! pod of the same `generateName` gets the open name.
//!
//! Names are drawn at random and not derived from the owner's state, because that state changes between two requests: caches show ends and deletions of other pods.
//! A process that ends loses its open names. Its requests are then refused by their fence; without a fence they can be as late as upstream's.

use std::collections::{BTreeMap, VecDeque};

use oarlock_informer::{Key, ObjMeta};
use oarlock_meta::{Uid, names};
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;

/// Owners that do not exist any more are removed each time the number of owners reaches a power of two of at least this many.
const SWEEP_FROM_OWNERS: usize = 1024;
/// The most draws of a name, if the drawn ones are in use.
const MAX_DRAWS: usize = 8;

/// The open pod names of a controller's owners. An owner has an entry only while it has open names.
#[derive(Debug, Default)]
pub(crate) struct PodNames {
    of: Mutex<BTreeMap<Key, OpenNames>>,
}

/// The open names of one owner.
#[derive(Debug)]
struct OpenNames {
    owner: Uid,
    /// The `generateName` of each name.
    prefixes: BTreeMap<String, String>,
}

/// The name for a pod to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodName {
    /// The pod's name.
    pub(crate) name: String,
    /// Whether an earlier request used the name.
    pub(crate) repeated: bool,
}

/// What became of a name that [`PodNames::open`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The pod exists, or another's pod has the name.
    Known,
    /// A request was sent, and the pod may exist.
    Unknown,
    /// No request was sent.
    Unsent,
}

impl PodNames {
    /// Returns a name for each new pod of an owner, given by `generateName`: first the open names, then new ones. All returned names are open until
    /// [`PodNames::close`]. `shown` says whether a cache shows a pod of that name; such a name is not open any more, and is not drawn. `random` gives evenly
    /// distributed 64-bit numbers.
    pub(crate) fn open<'a>(
        &self,
        owner: &ObjMeta,
        prefixes: impl IntoIterator<Item = &'a str>,
        shown: impl Fn(&str) -> bool,
        mut random: impl FnMut() -> u64,
    ) -> Vec<PodName> {
        let mut all = self.of.lock();
        let new = || OpenNames { owner: owner.uid.clone(), prefixes: BTreeMap::new() };
        let open = all.entry(owner.key.clone()).or_insert_with(new);
        if open.owner != owner.uid || seeded_bug!("unknown_create_repeated") {
            *open = new();
        }
        open.prefixes.retain(|name, _| !shown(name));
        let earlier = open.prefixes.clone();
        let mut left: BTreeMap<&str, VecDeque<&str>> = BTreeMap::new();
        earlier.iter().for_each(|(name, prefix)| left.entry(prefix.as_str()).or_default().push_back(name));
        let name = |prefix: &str| {
            if let Some(name) = left.get_mut(prefix).and_then(VecDeque::pop_front) {
                return PodName { name: name.to_owned(), repeated: true };
            }
            let name = draw(prefix, |name| open.prefixes.contains_key(name) || shown(name), &mut random);
            open.prefixes.insert(name.clone(), prefix.to_owned());
            PodName { name, repeated: false }
        };
        prefixes.into_iter().map(name).collect()
    }

    /// Closes the names of an owner whose outcome is known, and new names without a request.
    pub(crate) fn close<'a>(&self, owner: &ObjMeta, outcomes: impl IntoIterator<Item = (&'a PodName, Outcome)>) {
        let mut all = self.of.lock();
        let Some(open) = all.get_mut(&owner.key).filter(|open| open.owner == owner.uid) else { return };
        for (name, outcome) in outcomes {
            let stays_open = match outcome {
                Outcome::Known => false,
                Outcome::Unknown => true,
                Outcome::Unsent => name.repeated,
            };
            if !stays_open {
                open.prefixes.remove(&name.name);
            }
        }
        if open.prefixes.is_empty() {
            all.remove(&owner.key);
        }
    }

    /// Removes the owners for which `exists` returns false, if there are many owners.
    pub(crate) fn sweep(&self, exists: impl Fn(&Key, &Uid) -> bool) {
        let mut all = self.of.lock();
        if all.len() >= SWEEP_FROM_OWNERS && all.len().is_power_of_two() {
            all.retain(|key, open| exists(key, &open.owner));
        }
    }
}

/// Draws a name that is not in use. After [`MAX_DRAWS`] the name may be in use; the create is then refused, and the next one draws again.
fn draw(prefix: &str, in_use: impl Fn(&str) -> bool, random: &mut impl FnMut() -> u64) -> String {
    let mut name = names::generate_name(prefix, random);
    for _ in 1..MAX_DRAWS {
        if !in_use(&name) {
            break;
        }
        name = names::generate_name(prefix, random);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str) -> ObjMeta {
        ObjMeta { key: Key::new("ns", "work"), uid: Uid::from(uid), ..ObjMeta::default() }
    }

    /// Numbers whose low bits differ, so that the drawn names differ.
    fn random() -> impl FnMut() -> u64 {
        let mut next = 0_u64;
        move || {
            next += 1;
            (0..12_u64).fold(0_u64, |bits, letter| bits | (((next + letter) % 27) << (letter * 5)))
        }
    }

    fn text(names: &[PodName]) -> Vec<&str> {
        names.iter().map(|name| name.name.as_str()).collect()
    }

    #[test]
    fn a_create_of_unknown_outcome_is_repeated_under_its_name() {
        let (names, owner, mut random) = (PodNames::default(), owner("a"), random());
        let first = names.open(&owner, ["work-0-", "work-1-", "work-2-", "work-3-"], |_| false, &mut random);
        let outcomes = [Outcome::Known, Outcome::Unknown, Outcome::Unknown, Outcome::Unsent];
        names.close(&owner, first.iter().zip(outcomes));
        let second = names.open(&owner, ["work-3-", "work-2-", "work-1-", "work-0-"], |_| false, &mut random);
        let repeated: Vec<bool> = second.iter().map(|name| name.repeated).collect();
        assert_eq!(repeated, [false, true, true, false]);
        assert_eq!((&second[1].name, &second[2].name), (&first[2].name, &first[1].name));
        assert!(
            first.iter().all(|name| name.name != second[0].name && name.name != second[3].name),
            "{first:?} {second:?}"
        );
        // What was repeated and not sent again is still open; what was new and not sent is not.
        names.close(&owner, second.iter().map(|name| (name, Outcome::Unsent)));
        let third = names.open(&owner, ["work-1-", "work-3-"], |_| false, &mut random);
        assert_eq!((&third[0].name, third[1].repeated), (&first[1].name, false));
    }

    #[test]
    fn a_reconcile_that_is_dropped_leaves_all_its_names_open() {
        let (names, owner, mut random) = (PodNames::default(), owner("a"), random());
        let first = names.open(&owner, ["work-"; 3], |_| false, &mut random);
        let second = names.open(&owner, ["work-"; 4], |_| false, &mut random);
        assert_eq!(text(&second)[..3], text(&first));
        assert!(!second[3].repeated);
    }

    #[test]
    fn a_name_that_a_cache_shows_is_neither_open_nor_drawn() {
        let (names, owner) = (PodNames::default(), owner("a"));
        let first = names.open(&owner, ["work-"], |_| false, random());
        names.close(&owner, [(&first[0], Outcome::Unknown)]);
        // The same numbers draw the same name first.
        let second = names.open(&owner, ["work-"], |name| name == first[0].name, random());
        assert!(!second[0].repeated && second[0].name != first[0].name, "{second:?}");
    }

    #[test]
    fn the_names_of_one_plan_differ() {
        let (names, owner) = (PodNames::default(), owner("a"));
        let mut drawn = 0;
        // Every number is drawn twice.
        let mut all = random();
        let mut last = 0;
        let twice = || {
            drawn += 1;
            if drawn % 2 == 1 {
                last = all();
            }
            last
        };
        let mut names = text(&names.open(&owner, ["work-"; 20], |_| false, twice))
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 20);
    }

    #[test]
    fn another_owner_of_the_same_key_has_names_of_its_own() {
        let (names, mut random) = (PodNames::default(), random());
        let first = names.open(&owner("a"), ["work-"], |_| false, &mut random);
        names.close(&owner("a"), [(&first[0], Outcome::Unknown)]);
        let second = names.open(&owner("b"), ["work-"], |_| false, &mut random);
        assert!(!second[0].repeated);
        // The old owner's outcome closes nothing of the new owner's.
        names.close(&owner("a"), [(&second[0], Outcome::Known)]);
        assert!(names.open(&owner("b"), ["work-"], |_| false, &mut random)[0].repeated);
    }

    #[test]
    fn owners_without_open_names_and_owners_that_are_deleted_take_no_room() {
        let (names, mut random) = (PodNames::default(), random());
        let one = names.open(&owner("a"), ["work-"], |_| false, &mut random);
        names.close(&owner("a"), [(&one[0], Outcome::Known)]);
        assert!(names.of.lock().is_empty());
        for number in 0..SWEEP_FROM_OWNERS {
            let owner = ObjMeta { key: Key::new("ns", format!("work-{number}")), ..ObjMeta::default() };
            let one = names.open(&owner, ["work-"], |_| false, &mut random);
            names.close(&owner, [(&one[0], Outcome::Unknown)]);
            names.sweep(|key, _| key.name == "work-7");
        }
        assert_eq!(names.of.lock().len(), 1);
    }
}

//! Replays the log, and judges each binding against the state at its revision.
//!
//! Each binding is judged twice: against the state that the scheduler must have seen (`lag`), where it must break no rule, and against the state as
//! it was, where violations are only counted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::facts::{Amounts, Node, Pod};
use super::nominations::Nominations;
use super::read::Line;
use super::selectors::{Labels, at};
use super::{Broken, Findings, LateMark, Log, Rule, Rules};

/// A pod on a node.
struct Placed {
    pod: Pod,
    node: String,
    /// The revision at which the pod got its node.
    since: u64,
    /// Whether a judged scheduler made the binding.
    ours: bool,
    /// The revision at which the pod was deleted or had ended.
    gone: Option<u64>,
    /// The revision at which the pod's deletion began, or the pod was deleted.
    leaving: Option<u64>,
}

/// The states of a node, the latest last.
#[derive(Default)]
struct Past {
    states: Vec<Node>,
    gone: Option<u64>,
}

/// Which changes of others count.
#[derive(Clone, Copy)]
enum View {
    /// Changes before this revision count; later changes count only in favour of the binding.
    Before(u64),
    /// All changes count.
    Everything,
}

pub(super) struct Judge<'a> {
    rules: &'a Rules,
    pods: BTreeMap<String, Pod>,
    placed: BTreeMap<String, Placed>,
    nodes: BTreeMap<String, Past>,
    namespaces: BTreeMap<String, Labels>,
    nominations: Nominations,
    findings: Findings,
}

type Fault = (Rule, String);

impl View {
    /// Whether a change of others at this revision must have been seen.
    fn knows(self, revision: u64) -> bool {
        match self {
            Self::Before(old) => revision <= old,
            Self::Everything => true,
        }
    }
}

impl Placed {
    /// Whether the pod uses resources of its node.
    fn counts(&self, view: View) -> bool {
        self.gone.is_none() && (self.ours || view.knows(self.since))
    }

    /// Whether the scheduler may have believed that the pod exists.
    fn was_there(&self, view: View, end: Option<u64>) -> bool {
        end.is_none_or(|end| !view.knows(end))
    }
}

impl<'a> Judge<'a> {
    pub(super) fn new(rules: &'a Rules) -> Self {
        let (pods, placed, nodes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (namespaces, nominations) = (BTreeMap::new(), Nominations::default());
        Self { rules, pods, placed, nodes, namespaces, nominations, findings: Findings::default() }
    }

    pub(super) fn run(mut self, log: &Log) -> Findings {
        for Line { revision, key, object } in &log.lines {
            let old = revision.saturating_sub(self.rules.lag);
            for claim in self.nominations.proven(old) {
                self.broke(&claim.pod, claim.revision, vec![(Rule::Nominated, claim.what)]);
            }
            self.nominations.forget(old.min(revision.saturating_sub(self.rules.late)));
            match (key.split_once('/'), object) {
                (Some(("nodes", name)), object) => self.node(name, object.as_ref(), *revision),
                (Some(("namespaces", name)), Some(object)) => {
                    let labels = at(object, "/metadata/labels").as_object().into_iter().flatten();
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    let labels = labels.map(|(key, value)| (key.clone(), text(value))).collect();
                    self.namespaces.insert(name.to_owned(), labels);
                }
                (Some(("namespaces", name)), None) => drop(self.namespaces.remove(name)),
                (_, Some(object)) => self.pod(Pod::read(key, object), *revision),
                (_, None) => self.pod_gone(key, *revision),
            }
            self.placed.retain(|_, placed| placed.gone.is_none_or(|gone| gone >= old));
        }
        self.findings
    }

    fn node(&mut self, name: &str, object: Option<&Value>, revision: u64) {
        let old = revision.saturating_sub(self.rules.lag);
        let past = self.nodes.entry(name.to_owned()).or_default();
        let Some(object) = object else {
            past.gone = Some(revision);
            return;
        };
        let (node, was_gone) = (Node::read(name, object, revision), past.gone.take().is_some());
        if was_gone || past.states.last().is_none_or(|last| !last.is_as(&node)) {
            past.states.push(node);
        }
        // A state that was replaced before the lag can no longer have been seen by a scheduler.
        while past.states.get(1).is_some_and(|next| next.since < old) {
            past.states.remove(0);
        }
    }

    fn pod_gone(&mut self, key: &str, revision: u64) {
        let Some(pod) = self.pods.remove(key) else { return };
        self.nominations.gone(&pod.uid, revision);
        if let Some(placed) = self.placed.get_mut(&pod.uid) {
            placed.gone.get_or_insert(revision);
            placed.leaving.get_or_insert(revision);
        }
    }

    fn pod(&mut self, pod: Pod, revision: u64) {
        if self.pods.get(&pod.key).is_some_and(|before| before.uid != pod.uid) {
            self.pod_gone(&pod.key, revision);
        }
        self.nominations.see(&pod, revision);
        let newly = self.pods.get(&pod.key).is_none_or(|before| !before.preempted) && pod.preempted;
        if newly && pod.node.is_some() {
            self.victim(&pod, revision);
        }
        let before = self.pods.get(&pod.key).map(|before| before.node.clone());
        if let Some(Some(before)) = &before {
            self.asked(Rule::Once);
            if pod.node.as_ref() != Some(before) {
                let what = format!("was on {before}, is on {}", pod.node.as_deref().unwrap_or("none"));
                self.broke(&pod, revision, vec![(Rule::Once, what)]);
            }
        }
        let bound = before == Some(None) && pod.node.is_some();
        let ours = bound && self.rules.schedulers.contains(&pod.scheduler);
        if let Some(node) = pod.node.clone() {
            if ours && !pod.ended {
                self.judge(&pod, &node, revision);
            }
            if !ours && before.as_ref().is_none_or(Option::is_none) {
                self.findings.others += 1;
            }
            self.place(&pod, node, ours, revision);
        }
        self.pods.insert(pod.key.clone(), pod);
    }

    /// Judges the mark of a victim. The nomination may have ended: within the lag, or, if the mark was on its way for long, earlier but while the victim was on
    /// the node.
    fn victim(&mut self, pod: &Pod, revision: u64) {
        self.asked(Rule::Victims);
        let old = revision.saturating_sub(self.rules.lag);
        let placed = self.placed.get(&pod.uid).map_or(revision, |placed| placed.since);
        match self.nominations.explain(pod) {
            Some(ended) if ended >= old => {}
            Some(ended) if ended >= placed => self.findings.late.push(LateMark { revision, ended }),
            _ => {
                let what = format!("nobody of more than {} is nominated to its node", pod.priority);
                self.broke(pod, revision, vec![(Rule::Victims, what)]);
            }
        }
    }

    fn place(&mut self, pod: &Pod, node: String, ours: bool, revision: u64) {
        let new = || Placed { pod: pod.clone(), node, since: revision, ours, gone: None, leaving: None };
        let placed = self.placed.entry(pod.uid.clone()).or_insert_with(new);
        // A resize is another writer's change, so the lowest requests of the pod count.
        let mut requests = pod.requests.clone();
        for (name, now) in &mut requests {
            *now = placed.pod.requests.get(name).map_or(0, |then| *then.min(now));
        }
        placed.pod = pod.clone();
        placed.pod.requests = requests;
        if pod.ended {
            placed.gone.get_or_insert(revision);
        }
        if pod.ended || pod.terminating {
            placed.leaving.get_or_insert(revision);
        }
        self.fullest(pod);
    }

    fn fullest(&mut self, pod: &Pod) {
        let Some(node) = pod.node.as_ref() else { return };
        let there = self.placed.values().filter(|placed| placed.node == *node && placed.gone.is_none());
        let sum: i128 = there.filter_map(|placed| placed.pod.requests.get("cpu")).sum();
        let room = self.nodes.get(node).and_then(|past| past.states.last()?.allocatable.get("cpu").copied());
        if let Some(room) = room.filter(|room| *room > 0) {
            let part = u64::try_from(sum * 100 / room).unwrap_or(0);
            let fullest = self.findings.fullest.entry(node.clone()).or_default();
            *fullest = part.max(*fullest);
        }
    }

    fn asked(&mut self, rule: Rule) {
        *self.findings.asked.entry(rule).or_default() += 1;
    }

    fn broke(&mut self, pod: &Pod, revision: u64, faults: Vec<Fault>) {
        let broken = |(rule, what)| Broken { rule, revision, pod: pod.key.clone(), what };
        self.findings.broken.extend(faults.into_iter().map(broken));
    }

    fn judge(&mut self, pod: &Pod, node: &str, revision: u64) {
        self.findings.bindings += 1;
        let known = View::Before(revision.saturating_sub(self.rules.lag));
        let anti = |pod: &Pod| pod.terms("podAntiAffinity").next().is_some();
        // A rule that may have relied on a waiting pod could not have been broken.
        let mut spreads = pod.hard_spread();
        let spreads = spreads.any(|rule| self.waiting(pod, known, |other| pod.spreads(rule, other)) == 0);
        let mut joins = pod.terms("podAffinity");
        let joins = joins.any(|term| self.waiting(pod, known, |other| pod.means(term, other, &self.namespaces)) == 0);
        for (rule, asked) in [
            (Rule::There, true),
            (Rule::Admission, true),
            (Rule::Resources, true),
            (Rule::Ports, pod.has_ports()),
            (Rule::Affinity, joins),
            (Rule::AntiAffinity, anti(pod) || self.placed.values().any(|placed| anti(&placed.pod))),
            (Rule::Spread, spreads),
        ] {
            if asked {
                self.asked(rule);
            }
        }
        let faults = self.look(pod, node, known);
        if faults.is_empty() && !self.look(pod, node, View::Everything).is_empty() {
            self.findings.excused += 1;
        }
        self.broke(pod, revision, faults);
        self.nominees(pod, node, revision);
    }

    /// Whether a binding leaves room for the pods that are nominated to the node, have the pod's priority at least, and must be known.
    fn nominees(&mut self, pod: &Pod, node: &str, revision: u64) {
        let old = revision.saturating_sub(self.rules.lag);
        let (view, mut claims, mut asked) = (View::Before(old), Vec::new(), false);
        let states = self.states(node, view);
        for nominee in self.nominations.before(pod, node, old) {
            asked = true;
            // A pod of higher priority than the nominee's, accepted after the judged pod, was not obliged to leave room.
            let counts = |placed: &&Placed| {
                let later = placed.since > old && placed.pod.priority > nominee.pod.priority;
                placed.node == node && placed.counts(view) && !later
            };
            let expected = Placed {
                pod: nominee.pod.clone(),
                node: node.to_owned(),
                since: old,
                ours: true,
                gone: None,
                leaving: None,
            };
            let there: Vec<&Placed> = self.placed.values().filter(counts).chain([&expected]).collect();
            if let Some((_, what)) = room(pod, &there, &states) {
                claims.push((nominee.pod.uid.clone(), format!("no room is left for {}: {what}", nominee.pod.key)));
            }
        }
        if asked {
            self.asked(Rule::Nominated);
        }
        for (nominee, what) in claims {
            self.nominations.claim(revision, pod, node, &nominee, what);
        }
    }

    /// Returns the rules that a binding breaks.
    fn look(&self, pod: &Pod, node: &str, view: View) -> Vec<Fault> {
        let states = self.states(node, view);
        if states.is_empty() {
            return vec![(Rule::There, format!("there is no node {node}"))];
        }
        let mut faults = Vec::new();
        if !states.iter().any(|node| pod.likes(node) && pod.bears(node)) {
            faults.push((Rule::Admission, format!("{node} is not for it")));
        }
        let there: Vec<&Placed> =
            self.placed.values().filter(|placed| placed.node == node && placed.counts(view)).collect();
        faults.extend(room(pod, &there, &states));
        if let Some((other, port)) = there.iter().find_map(|other| Some((other, pod.shared_port(&other.pod)?))) {
            faults.push((Rule::Ports, format!("{} has {port:?} on {node}", other.pod.key)));
        }
        // While a node's labels change, the domains that the scheduler saw are unknown.
        if let [node] = states.as_slice() {
            faults.extend(self.affinity(pod, node, view));
            faults.extend(self.anti_affinity(pod, node, view));
            faults.extend(self.spread(pod, node, view));
        }
        faults
    }

    /// Returns the states in which the scheduler may have seen a node, the latest last.
    fn states(&self, node: &str, view: View) -> Vec<&Node> {
        let Some(past) = self.nodes.get(node).filter(|past| past.gone.is_none_or(|gone| !view.knows(gone))) else {
            return Vec::new();
        };
        let next = past.states.iter().skip(1).map(|next| Some(next.since)).chain([None]);
        let seen = past.states.iter().zip(next).filter(|(_, next)| next.is_none_or(|next| !view.knows(next)));
        seen.map(|(state, _)| state).collect()
    }

    /// Returns the domain of a node, if all states that the scheduler may have seen agree.
    fn domain(&self, node: &str, topology: &str, view: View) -> Option<&String> {
        match self.states(node, view).as_slice() {
            [node] => node.domain(topology),
            _ => None,
        }
    }

    /// Returns how many pods the scheduler may have accepted for some node without a binding so far: the decision may have relied on them.
    fn waiting(&self, pod: &Pod, view: View, means: impl Fn(&Pod) -> bool) -> usize {
        let waits = |other: &&Pod| other.node.is_none() && other.uid != pod.uid && !other.ended && means(other);
        match view {
            View::Before(_) => self.pods.values().filter(waits).count(),
            View::Everything => 0,
        }
    }

    fn affinity(&self, pod: &Pod, node: &Node, view: View) -> Option<Fault> {
        let terms: Vec<&Value> = pod.terms("podAffinity").collect();
        let first = terms.iter().all(|term| pod.means(term, pod, &self.namespaces))
            && !self.placed.values().any(|other| {
                other.counts(view) && terms.iter().any(|term| pod.means(term, &other.pod, &self.namespaces))
            });
        let found = |term: &Value| {
            let topology = at(term, "/topologyKey").as_str().unwrap_or_default();
            let Some(domain) = node.domain(topology) else { return false };
            let together = |other: &&Placed| {
                other.was_there(view, other.gone)
                    && self.domain(&other.node, topology, view).is_none_or(|theirs| theirs == domain)
                    && pod.means(term, &other.pod, &self.namespaces)
            };
            first
                || self.placed.values().find(together).is_some()
                || self.waiting(pod, view, |other| pod.means(term, other, &self.namespaces)) > 0
        };
        let alone = terms.iter().find(|term| !found(term))?;
        Some((Rule::Affinity, format!("nobody on {} is meant by {alone}", node.name)))
    }

    fn anti_affinity(&self, pod: &Pod, node: &Node, view: View) -> Option<Fault> {
        let meet = |one: &Pod, other: &Pod, theirs: &str| {
            let mut terms = one.terms("podAntiAffinity");
            terms.any(|term| {
                let topology = at(term, "/topologyKey").as_str().unwrap_or_default();
                let domain = node.domain(topology);
                domain.is_some()
                    && domain == self.domain(theirs, topology, view)
                    && one.means(term, other, &self.namespaces)
            })
        };
        let others = self.placed.values().filter(|other| other.counts(view));
        let other = others
            .into_iter()
            .find(|other| meet(pod, &other.pod, &other.node) || meet(&other.pod, pod, &other.node))?;
        Some((Rule::AntiAffinity, format!("{} is on {}, in the domain of {}", other.pod.key, other.node, node.name)))
    }

    fn spread(&self, pod: &Pod, node: &Node, view: View) -> Option<Fault> {
        let topology = |rule: &Value| at(rule, "/topologyKey").as_str().unwrap_or_default().to_owned();
        let keys: BTreeSet<String> = pod.hard_spread().map(topology).collect();
        for rule in pod.hard_spread() {
            let eligible = |node: &&Node| {
                keys.iter().all(|key| node.domain(key).is_some())
                    && (at(rule, "/nodeAffinityPolicy") == "Ignore" || pod.likes(node))
                    && (at(rule, "/nodeTaintsPolicy") != "Honor" || pod.bears(node))
            };
            let topology = topology(rule);
            let Some(domain) = node.domain(&topology) else {
                return Some((Rule::Spread, format!("{} has no {topology}", node.name)));
            };
            // The lowest and the highest number of each domain that the scheduler may have seen.
            let mut domains: BTreeMap<&String, (i64, i64)> = BTreeMap::new();
            for name in self.nodes.keys() {
                if let [state] = self.states(name, view).as_slice()
                    && view.knows(state.since)
                    && eligible(state)
                    && let Some(theirs) = state.domain(&topology)
                {
                    domains.entry(theirs).or_default();
                }
            }
            let here = domains.entry(domain).or_default();
            here.0 += i64::from(pod.spreads(rule, pod));
            for other in self.placed.values().filter(|other| pod.spreads(rule, &other.pod)) {
                let states = self.states(&other.node, view);
                let theirs = states.last().filter(|node| eligible(node)).and_then(|node| node.domain(&topology));
                let Some((fewest, most)) = theirs.and_then(|theirs| domains.get_mut(theirs)) else { continue };
                *fewest += i64::from(other.counts(view) && other.leaving.is_none());
                *most += i64::from(other.was_there(view, other.leaving));
            }
            let count = domains.get(domain).map_or(0, |(fewest, _)| *fewest);
            let wanted = usize::try_from(at(rule, "/minDomains").as_u64().unwrap_or(1)).unwrap_or(1);
            let least = domains.iter().filter(|(name, _)| **name != domain).map(|(_, (_, most))| *most);
            let own = count - i64::from(pod.spreads(rule, pod));
            let least = if domains.len() < wanted { 0 } else { least.chain([own]).min().unwrap_or(0) };
            let limit = at(rule, "/maxSkew").as_i64().unwrap_or(1);
            let waiting = self.waiting(pod, view, |other| pod.spreads(rule, other));
            if count - least > limit + i64::try_from(waiting).unwrap_or(i64::MAX / 2) {
                let what = format!("{count} in {domain}, {least} elsewhere: more than {limit} apart");
                return Some((Rule::Spread, what));
            }
        }
        None
    }
}

/// Returns the first resource that does not fit.
fn room(pod: &Pod, there: &[&Placed], states: &[&Node]) -> Option<Fault> {
    let most = |name: &str| states.iter().filter_map(|node| node.allocatable.get(name)).max().copied().unwrap_or(0);
    let mut sums: Amounts =
        pod.requests.iter().filter(|(_, wanted)| **wanted > 0).map(|(n, w)| (n.clone(), *w)).collect();
    for (name, sum) in &mut sums {
        *sum += there.iter().filter_map(|other| other.pod.requests.get(name)).sum::<i128>();
    }
    let pods = i128::try_from(there.len() + 1).unwrap_or(i128::MAX);
    sums.insert("pods".to_owned(), pods.saturating_mul(1_000_000_000));
    let (name, sum) = sums.into_iter().find(|(name, sum)| *sum > most(name))?;
    let node = states.last().map_or("", |node| node.name.as_str());
    Some((Rule::Resources, format!("{sum} of {name} on {node}, which has {} (billionths)", most(&name))))
}

//! X1: judges from a cloud's record of its effects, in their order, whether every wanted change was made exactly once.
//!
//! | rule | holds when |
//! |---|---|
//! | one | a Service never has two load balancers |
//! | once | no load balancer is made twice, changed to its present content, or deleted twice |
//! | order | no effect of an epoch follows an effect of a later epoch |
//! | end | at the end there is one load balancer, as specified, for each Service that wants one, and no other |

use std::collections::{BTreeMap, BTreeSet};

/// The kind of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A load balancer was made.
    Made,
    /// The load balancer was changed.
    Changed,
    /// The load balancer was deleted.
    Removed,
}

/// One effect on the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The kind of the effect.
    pub what: What,
    /// The load balancer, by the cloud's own name.
    pub balancer: u64,
    /// The uid of the Service.
    pub service: String,
    /// The load balancer's content after the effect.
    pub content: String,
    /// The epoch of the unit under which the call was made.
    pub epoch: u64,
}

/// Returns the violations. `wanted`: each Service that must have a load balancer at the end, with the wanted content.
#[must_use]
pub fn judge(effects: &[Effect], wanted: &BTreeMap<String, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut there: BTreeMap<&str, BTreeMap<u64, &str>> = BTreeMap::new();
    let (mut made, mut removed) = (BTreeSet::new(), BTreeSet::new());
    let mut newest = 0;
    for (at, effect) in effects.iter().enumerate() {
        let Effect { what, balancer, service, content, epoch } = effect;
        let all = there.entry(service).or_default();
        let mut broken = |rule: &str| wrong.push(format!("{rule}: effect {at}: {effect:?}"));
        if *epoch < newest {
            broken("order");
        }
        newest = newest.max(*epoch);
        match what {
            What::Made => {
                if !all.is_empty() {
                    broken("one");
                } else if !made.insert(service) {
                    broken("once");
                }
                all.insert(*balancer, content);
            }
            What::Changed => {
                if all.insert(*balancer, content).is_none_or(|before| before == content) {
                    broken("once");
                }
            }
            What::Removed => {
                if all.remove(balancer).is_none() || (all.is_empty() && !removed.insert(service)) {
                    broken("once");
                }
            }
        }
    }
    for (service, all) in &there {
        for (balancer, content) in all {
            match wanted.get(*service) {
                None => wrong.push(format!("end: {service} has {balancer}, and wants none")),
                Some(wants) if wants != content => {
                    wrong.push(format!("end: {service} has {balancer} with {content}, and wants {wants}"));
                }
                Some(_) => {}
            }
        }
    }
    let missing = wanted.keys().filter(|service| there.get(service.as_str()).is_none_or(BTreeMap::is_empty));
    wrong.extend(missing.map(|service| format!("end: {service} has none")));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(what: What, balancer: u64, content: &str, epoch: u64) -> Effect {
        Effect { what, balancer, service: "u".into(), content: content.into(), epoch }
    }

    /// Returns the rules that the effects of one Service break, if the Service wants `content` at the end.
    fn broken(effects: &[Effect], content: Option<&str>) -> Vec<String> {
        let wanted = content.map(|content| ("u".to_owned(), content.to_owned())).into_iter().collect();
        let rule = |text: String| text.split(':').next().unwrap_or_default().to_owned();
        judge(effects, &wanted).into_iter().map(rule).collect()
    }

    #[test]
    fn a_life_in_order_breaks_nothing() {
        use What::{Changed, Made, Removed};
        let life = [effect(Made, 1, "a", 5), effect(Changed, 1, "b", 5), effect(Changed, 1, "a", 9)];
        assert_eq!(broken(&life, Some("a")), [""; 0]);
        let whole = [&life[..], &[effect(Removed, 1, "", 9)]].concat();
        assert_eq!(broken(&whole, None), [""; 0]);
        assert_eq!(broken(&[], None), [""; 0]);
    }

    #[test]
    fn every_rule_can_be_broken() {
        use What::{Changed, Made, Removed};
        let (first, gone) = (effect(Made, 1, "a", 5), effect(Removed, 1, "", 5));
        let cases: [(&[Effect], Option<&str>, &[&str]); 9] = [
            (&[first.clone(), effect(Made, 2, "a", 5)], Some("a"), &["one"]),
            (&[first.clone(), gone.clone(), effect(Made, 2, "a", 5)], Some("a"), &["once"]),
            (&[first.clone(), effect(Changed, 1, "a", 5)], Some("a"), &["once"]),
            (&[first.clone(), gone.clone(), gone.clone()], None, &["once"]),
            (&[first.clone(), effect(Changed, 1, "b", 9), effect(Changed, 1, "c", 5)], Some("c"), &["order"]),
            (std::slice::from_ref(&first), None, &["end"]),
            (std::slice::from_ref(&first), Some("b"), &["end"]),
            (&[first.clone(), gone.clone()], Some("a"), &["end"]),
            (&[], Some("a"), &["end"]),
        ];
        for (effects, content, rules) in cases {
            assert_eq!(broken(effects, content), rules, "{effects:?}");
        }
    }
}

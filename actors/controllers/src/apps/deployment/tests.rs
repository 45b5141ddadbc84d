//! Table tests of the plan of a Deployment.

use std::sync::Arc;

use oarlock_informer::{Item, Key, ObjMeta};
use oarlock_meta::{Time, Uid};
use oarlock_schema::Str;

use super::annotations::{DESIRED, HISTORY, MAX, REVISION};
use super::plan::{self, Plan};
use super::status;
use crate::project::{
    Amount, Condition, Deployment, DeploymentState, Digest, ReplicaSet, ReplicaSetState, Strategy, condition,
};

const NOW: Time = Time::from_unix(10_000);

fn template(number: i64) -> Digest {
    let mut digest = Digest::default();
    digest.number(number);
    digest
}

/// A Deployment of template 1 with surge and unavailability of 25 percent.
fn deployment(replicas: i64) -> Item<Deployment> {
    let value = Deployment {
        replicas,
        selector: None,
        template: template(1),
        strategy: Strategy::Rolling { surge: Amount::Percent(25), unavailable: Amount::Percent(25) },
        min_ready: 0,
        history: Some(10),
        paused: false,
        deadline: Some(600),
        status: DeploymentState::default(),
    };
    Item { meta: ObjMeta { key: Key::new("ns", "web"), generation: 7, ..ObjMeta::default() }, value }
}

/// A ReplicaSet of template `number` with `size` wanted and `available` available pods, scaled for a Deployment of `desired` pods.
fn set(number: i64, size: i64, available: i64, desired: i64) -> Item<ReplicaSet> {
    let annotation = |key: &str, value: i64| (Str::from(key), Str::from(value.to_string()));
    let surge = (desired + 3) / 4;
    let mut annotations =
        vec![annotation(REVISION, number), annotation(DESIRED, desired), annotation(MAX, desired + surge)];
    annotations.sort();
    let meta = ObjMeta {
        key: Key::new("ns", format!("web-{number}")),
        uid: Uid::from(format!("web-{number}")),
        created: Some(Time::from_unix(number)),
        annotations: annotations.into(),
        ..ObjMeta::default()
    };
    let status = ReplicaSetState { replicas: size, ready: available, available, ..ReplicaSetState::default() };
    Item { meta, value: ReplicaSet { replicas: size, template: template(number), status, ..ReplicaSet::default() } }
}

fn decide(deployment: &Item<Deployment>, sets: &[Item<ReplicaSet>]) -> Plan {
    let sets: Vec<Arc<Item<ReplicaSet>>> = sets.iter().cloned().map(Arc::new).collect();
    plan::plan(
        deployment,
        &sets,
        &|uid| sets.iter().any(|set| set.meta.uid.as_str() == uid && set.value.status.replicas > 0),
        NOW,
    )
}

fn sizes(plan: &Plan) -> Vec<(&str, i64)> {
    plan.resize.iter().filter(|one| one.from != one.to).map(|one| (one.set.as_str(), one.to)).collect()
}

#[test]
fn a_new_deployment_gets_a_set_of_full_size_and_revision_one() {
    let plan = decide(&deployment(3), &[]);
    let create = plan.create.unwrap();
    assert_eq!(create.name, format!("web-{}", create.hash));
    assert!(
        (1..=10).contains(&create.hash.len())
            && create.hash.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b))
    );
    assert_eq!(create.replicas, 3);
    let annotations: Vec<_> = create.annotations.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(annotations, [(DESIRED, "3"), (MAX, "4"), (REVISION, "1")]);
    assert_eq!(plan.revision.as_deref(), Some("1"));
    let progressing = condition(&plan.status.conditions, "Progressing").unwrap();
    assert_eq!((progressing.status.as_str(), progressing.reason.as_str()), ("True", "NewReplicaSetCreated"));
    assert_eq!(progressing.message, format!("Created new replica set \"{}\"", create.name));
    assert_eq!(plan.again.unwrap().as_secs(), 601);
}

#[test]
fn hashes_differ_by_template_and_by_collision_and_never_by_run() {
    let one = plan::hash(template(1), None);
    assert_ne!(one, plan::hash(template(2), None));
    assert_ne!(one, plan::hash(template(1), Some(1)));
    assert_eq!(one, plan::hash(template(1), None));
}

#[test]
fn a_rolling_update_keeps_within_surge_and_availability_at_each_step() {
    // (wanted, old size, old available, new size, new available) → changes
    type Sizes = &'static [(&'static str, i64)];
    let cases: &[(i64, [i64; 4], Sizes)] = &[
        (10, [10, 10, 0, 0], &[("web-1", 3)]),
        (10, [10, 10, 3, 0], &[("web-0", 8)]),
        (10, [8, 8, 3, 0], &[("web-1", 5)]),
        (10, [8, 8, 5, 0], &[]),
        (10, [8, 8, 5, 2], &[("web-0", 6)]),
        (10, [3, 3, 10, 10], &[("web-0", 0)]),
        (10, [0, 0, 10, 10], &[]),
        (4, [4, 0, 1, 0], &[("web-0", 3)]),
        (3, [0, 0, 5, 5], &[("web-1", 3)]),
    ];
    for (wanted, [old, old_up, new, new_up], expected) in cases {
        let sets = [set(0, *old, *old_up, *wanted), set(1, *new, *new_up, *wanted)];
        let mut current = deployment(*wanted);
        current.value.replicas = *wanted;
        let plan = decide(&current, &sets);
        assert_eq!(sizes(&plan), *expected, "{wanted} {old}/{old_up} {new}/{new_up}");
    }
}

#[test]
fn whatever_the_order_of_availability_a_rollout_ends_and_never_breaks_its_bounds() {
    for (wanted, surge, unavailable) in [(10, 3, 0), (10, 0, 3), (1, 1, 0), (7, 25, 25), (3, 0, 0)] {
        let mut current = deployment(wanted);
        current.value.strategy =
            Strategy::Rolling { surge: Amount::Count(surge), unavailable: Amount::Count(unavailable) };
        let down = if surge == 0 && unavailable == 0 { 1 } else { unavailable.min(wanted) };
        let mut sets = [set(0, wanted, wanted, wanted), set(1, 0, 0, wanted)];
        let mut steps = 0;
        while sets[0].value.replicas > 0 || sets[1].value.replicas < wanted || sets[1].value.status.available < wanted {
            steps += 1;
            assert!(steps < 200, "stuck with surge {surge}, unavailable {unavailable}: {sets:?}");
            let plan = decide(&current, &sets);
            for resize in &plan.resize {
                let set = sets.iter_mut().find(|set| set.meta.name() == resize.set.as_str()).unwrap();
                set.value.replicas = resize.to;
                set.value.status.replicas = resize.to;
                set.value.status.available = set.value.status.available.min(resize.to);
            }
            let total: i64 = sets.iter().map(|set| set.value.replicas).sum();
            let available: i64 = sets.iter().map(|set| set.value.status.available).sum();
            assert!(total <= wanted + surge && available >= wanted - down, "{total} pods, {available} available");
            if plan.resize.is_empty() {
                // One pod more becomes available.
                let set = &mut sets[1].value;
                set.status.available = (set.status.available + 1).min(set.replicas);
            }
        }
    }
}

#[test]
fn unhealthy_old_pods_go_first() {
    let sets = [set(-1, 4, 0, 10), set(0, 7, 7, 10), set(1, 2, 2, 10)];
    assert_eq!(sizes(&decide(&deployment(10), &sets)), [("web--1", 0), ("web-0", 6)]);
}

#[test]
fn recreate_empties_the_old_sets_before_it_makes_the_new_one() {
    let mut current = deployment(3);
    current.value.strategy = Strategy::Recreate;
    let mut old = set(0, 3, 3, 3);
    let first = decide(&current, &[old.clone()]);
    assert!(first.create.is_none());
    assert_eq!(sizes(&first), [("web-0", 0)]);
    old.value.replicas = 0;
    let second = decide(&current, &[old.clone()]);
    assert!(second.create.is_none() && second.resize.is_empty(), "its pods still run");
    old.value.status.replicas = 0;
    let third = decide(&current, &[old]);
    assert_eq!(third.create.unwrap().replicas, 3);
}

#[test]
fn a_scale_amid_a_rollout_is_shared_in_proportion() {
    let sets = [set(0, 8, 8, 10), set(1, 5, 5, 10)];
    let up = decide(&deployment(20), &sets);
    assert!(up.create.is_none());
    let total: i64 = up.resize.iter().map(|one| one.to).sum();
    assert_eq!(total, 25, "wanted and surge: {:?}", up.resize);
    assert_eq!(sizes(&up), [("web-0", 15), ("web-1", 10)]);
    let down = decide(&deployment(5), &sets);
    assert_eq!(down.resize.iter().map(|one| one.to).sum::<i64>(), 7);
    let none = decide(&deployment(0), &sets);
    assert_eq!(sizes(&none), [("web-0", 0), ("web-1", 0)]);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut current = deployment(5);
    current.value.paused = true;
    let plan = decide(&current, &[set(0, 3, 3, 3)]);
    assert!(plan.create.is_none());
    assert_eq!(sizes(&plan), [("web-0", 5)]);
    let progressing = condition(&plan.status.conditions, "Progressing").unwrap();
    assert_eq!((progressing.status.as_str(), progressing.reason.as_str()), ("Unknown", "DeploymentPaused"));
    current.value.paused = false;
    let mut sets = [set(0, 5, 3, 5)];
    sets[0].value.status.replicas = 3;
    current.value.status = plan.status;
    let resumed = decide(&current, &sets);
    let progressing = condition(&resumed.status.conditions, "Progressing").unwrap();
    assert_eq!(progressing.reason, "NewReplicaSetCreated");
}

#[test]
fn a_rollback_moves_the_old_set_to_the_front_of_the_history() {
    let mut current = deployment(3);
    current.meta.annotations = Box::new([(REVISION.into(), "2".into()), ("team".into(), "a".into())]);
    let plan = decide(&current, &[set(1, 0, 0, 3), set(2, 3, 3, 3)]);
    let [resize] = plan.resize.as_slice() else { panic!("{:?}", plan.resize) };
    let annotations: Vec<_> = resize.annotations.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(annotations, [(REVISION, "3"), (HISTORY, "1"), ("team", "a")]);
    assert_eq!(plan.revision.as_deref(), Some("3"));
}

#[test]
fn history_beyond_the_limit_goes_once_the_rollout_is_over() {
    let mut current = deployment(3);
    current.value.history = Some(1);
    current.value.template = template(4);
    let mut sets = [set(1, 0, 0, 3), set(2, 0, 0, 3), set(3, 0, 0, 3), set(4, 3, 2, 3)];
    assert!(decide(&current, &sets).forget.is_empty(), "not over");
    sets[3].value.status.available = 3;
    assert_eq!(decide(&current, &sets).forget, ["web-1", "web-2"]);
    sets[0].meta.generation = 1;
    assert_eq!(decide(&current, &sets).forget, ["web-2"], "one was not looked at yet");
}

#[test]
fn conditions_tell_progress_completion_and_a_missed_deadline() {
    let mut current = deployment(3);
    let progressing = |plan: &Plan| {
        let one = condition(&plan.status.conditions, "Progressing").unwrap();
        (one.status.to_string(), one.reason.to_string(), one.message.to_string())
    };
    let was = Condition::new("Progressing", "True", "NewReplicaSetCreated", "", Time::from_unix(9_900));
    current.value.status.conditions = vec![was];
    current.value.status.updated = 3;
    current.value.status.replicas = 3;
    let moving = decide(&current, &[set(1, 3, 1, 3)]);
    assert_eq!(
        progressing(&moving),
        ("True".into(), "ReplicaSetUpdated".into(), "ReplicaSet \"web-1\" is progressing.".into())
    );
    let available = condition(&moving.status.conditions, "Available").unwrap();
    assert_eq!((available.status.as_str(), available.reason.as_str()), ("False", "MinimumReplicasUnavailable"));
    assert_eq!((moving.status.unavailable, moving.status.observed), (2, 7));
    let done = decide(&current, &[set(1, 3, 3, 3)]);
    assert_eq!(
        progressing(&done),
        ("True".into(), "NewReplicaSetAvailable".into(), "ReplicaSet \"web-1\" has successfully progressed.".into())
    );
    assert_eq!(done.again, None);
    current.value.status = moving.status;
    current.value.status.conditions[0].updated = Some(Time::from_unix(9_000));
    current.value.status.conditions.iter_mut().for_each(|one| one.updated = Some(Time::from_unix(9_000)));
    let stuck = decide(&current, &[set(1, 3, 1, 3)]);
    assert_eq!(
        progressing(&stuck),
        ("False".into(), "ProgressDeadlineExceeded".into(), "ReplicaSet \"web-1\" has timed out progressing.".into())
    );
}

#[test]
fn a_settled_deployment_plans_nothing() {
    let mut current = deployment(3);
    let sets = [set(1, 3, 3, 3)];
    let first = decide(&current, &sets);
    current.value.status = first.status;
    current.meta.annotations = Box::new([(REVISION.into(), "1".into())]);
    let second = decide(&current, &sets);
    assert_eq!(second.status, current.value.status);
    assert!(second.resize.is_empty() && second.create.is_none() && second.revision.is_none() && second.again.is_none());
}

#[test]
fn percentages_round_up_for_surge_and_down_for_unavailable() {
    for (replicas, percent, up, expected) in
        [(10, 25, true, 3), (10, 25, false, 2), (3, 0, true, 0), (7, 100, false, 7)]
    {
        assert_eq!(Amount::Percent(percent).of(replicas, up), expected);
    }
    let mut all = vec![Condition::new("A", "True", "x", "", Time::from_unix(1))];
    status::set(&mut all, Condition::new("A", "True", "y", "", NOW));
    assert_eq!((all[0].transition, all[0].updated), (Some(Time::from_unix(1)), Some(NOW)));
}

#[test]
fn conditions_are_listed_in_the_order_in_which_they_are_set() {
    let kinds = |plan: &Plan| plan.status.conditions.iter().map(|one| one.kind.as_str().to_owned()).collect::<Vec<_>>();
    let mut current = deployment(3);
    let made = decide(&current, &[]);
    assert_eq!(kinds(&made), ["Progressing", "Available"], "the set is made before pods are counted");
    current.value.status = made.status;
    // The set's pods are refused, so the rollout makes no progress.
    let mut refused = set(1, 3, 0, 3);
    refused.value.status.replicas = 0;
    let failure = Condition::new("ReplicaFailure", "True", "FailedCreate", "no", NOW);
    refused.value.status.conditions = vec![failure];
    let stuck = decide(&current, &[refused.clone()]);
    assert_eq!(kinds(&stuck), ["Progressing", "Available", "ReplicaFailure"]);
    // A scaled or paused Deployment keeps its conditions.
    current.value.status = stuck.status;
    current.value.paused = true;
    refused.value.status.conditions.clear();
    let paused = decide(&current, &[refused]);
    assert!(kinds(&paused).contains(&"ReplicaFailure".to_owned()));
}

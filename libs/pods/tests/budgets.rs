//! Disruption budgets.

use oarlock_pods::budget::{self, Verdict};
use oarlock_schema::views::core_v1::Pod;
use oarlock_schema::views::policy_v1::{PodDisruptionBudget, PodDisruptionBudgetMut};
use serde_json::{Value, json};

use crate::common;

#[test]
fn a_selector_that_is_absent_covers_nothing_and_an_empty_one_everything() {
    let pod = common::pod(&json!({"metadata": {"labels": {"app": "web"}}}));
    let expression = |operator: &str, values: &[&str]| json!({"selector": {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}});
    let rows = [
        (json!({}), false),
        (json!({"selector": {}}), true),
        (json!({"selector": {"matchLabels": {"app": "web"}}}), true),
        (json!({"selector": {"matchLabels": {"app": "db"}}}), false),
        (expression("In", &["web"]), true),
        (expression("NotIn", &["web"]), false),
        (expression("In", &[]), false),
        (expression("Near", &["web"]), false),
    ];
    for (spec, wanted) in rows {
        let budget = common::object("policy", "poddisruptionbudgets", &json!({"spec": spec}));
        let labels = pod.view::<Pod<'_>>().unwrap().metadata().labels();
        assert_eq!(budget::covers(budget.view::<PodDisruptionBudget<'_>>().unwrap(), labels), wanted, "{spec}");
    }
}

#[test]
fn a_pod_that_never_ran_or_is_over_is_no_disruption() {
    let row = |phase: &str, deleted: Option<&str>| {
        let mut pod = json!({"metadata": {}, "status": {"phase": phase}});
        if let Some(deleted) = deleted {
            pod["metadata"]["deletionTimestamp"] = deleted.into();
        }
        budget::is_disruption(common::pod(&pod).view::<Pod<'_>>().unwrap())
    };
    assert!(row("Running", None) && row("Unknown", None));
    assert!(!row("Pending", None) && !row("Succeeded", None) && !row("Failed", None));
    assert!(!row("Running", Some("2026-01-01T00:00:00Z")));
}

#[test]
fn a_budget_protects_healthy_pods_by_what_it_has_observed() {
    let verdict = |policy: &str, status: &Value, ready: &[&str]| {
        let mut budget = json!({"metadata": {"generation": 2}, "spec": {}, "status": status});
        if !policy.is_empty() {
            budget["spec"]["unhealthyPodEvictionPolicy"] = policy.into();
        }
        let budget = common::object("policy", "poddisruptionbudgets", &budget);
        let conditions: Vec<Value> = ready.iter().map(|status| json!({"type": "Ready", "status": status})).collect();
        let pod = common::pod(&json!({"status": {"conditions": conditions}}));
        budget::verdict(budget.view::<PodDisruptionBudget<'_>>().unwrap(), pod.view::<Pod<'_>>().unwrap().status())
    };
    let status = |allowed: i64, healthy: i64, desired: i64, observed: i64| {
        json!({"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
            "expectedPods": 3, "observedGeneration": observed})
    };
    let disrupted = |allowed: i64, observed: i64, pods: usize| {
        let mut status = status(allowed, 3, 2, observed);
        let pods = (0..pods).map(|pod| (format!("p{pod}"), "2026-01-01T00:00:00Z".into()));
        status["disruptedPods"] = Value::Object(pods.collect());
        status
    };
    let rows = [
        ("", disrupted(1, 2, 2000), vec!["True"], Verdict::Costs),
        ("", disrupted(1, 2, 2001), vec!["True"], Verdict::TooManyUnconfirmed),
        ("", disrupted(0, 2, 2001), vec!["True"], Verdict::TooManyUnconfirmed),
        ("", disrupted(-1, 2, 2001), vec!["True"], Verdict::Negative),
        ("", disrupted(1, 1, 2001), vec!["True"], Verdict::Unobserved),
        ("AlwaysAllow", disrupted(1, 2, 2001), vec!["False"], Verdict::Free),
        ("", status(1, 3, 2, 2), vec!["True"], Verdict::Costs),
        ("", status(0, 2, 2, 2), vec!["True"], Verdict::Refused),
        ("", status(-1, 2, 2, 2), vec!["True"], Verdict::Negative),
        ("", status(1, 3, 2, 1), vec!["True"], Verdict::Unobserved),
        ("AlwaysAllow", status(0, 2, 2, 2), vec!["True"], Verdict::Refused),
        ("AlwaysAllow", status(0, 0, 2, 1), vec!["False"], Verdict::Free),
        ("", status(0, 2, 2, 2), vec!["False"], Verdict::Free),
        ("IfHealthyBudget", status(0, 2, 2, 2), vec![], Verdict::Free),
        ("IfHealthyBudget", status(0, 1, 2, 2), vec!["False"], Verdict::Refused),
        ("", status(0, 0, 0, 2), vec!["Unknown"], Verdict::Refused),
        ("", status(0, 2, 2, 2), vec!["False", "True"], Verdict::Free),
    ];
    for (policy, status, ready, wanted) in rows {
        let disrupted = status["disruptedPods"].as_object().map_or(0, serde_json::Map::len);
        let allowed = &status["disruptionsAllowed"];
        assert_eq!(verdict(policy, &status, &ready), wanted, "{policy} {allowed} {disrupted} {ready:?}");
    }
}

#[test]
fn a_refusal_names_what_the_budget_lacks() {
    let refusal = |current: i64, condition: Value| {
        let conditions = if condition.is_null() { json!([]) } else { json!([condition]) };
        let status = json!({"currentHealthy": current, "desiredHealthy": 3, "conditions": conditions});
        let budget = json!({"metadata": {"name": "b"}, "spec": {}, "status": status});
        let budget = common::object("policy", "poddisruptionbudgets", &budget);
        budget::refusal(budget.view::<PodDisruptionBudget<'_>>().unwrap())
    };
    let condition = |status: &str, reason: &str, message: &str| {
        json!({"type": "DisruptionAllowed", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let needs = "The disruption budget b needs 3 healthy pods and has 3 currently";
    let refused = "The disruption budget b does not allow evicting pods currently";
    let synced = |current, status, message| refusal(current, condition(status, "SyncFailed", message));
    assert_eq!(refusal(3, Value::Null), needs);
    assert_eq!(refusal(4, Value::Null), refused);
    assert_eq!(synced(3, "False", "no scale"), format!("{refused} because it failed sync: no scale"));
    assert_eq!(synced(3, "True", "no scale"), needs, "a condition that is true is no reason");
    assert_eq!(synced(3, "False", ""), needs, "a condition without a message says nothing");
    assert_eq!(refusal(3, condition("False", "Other", "m")), needs, "the counts go first");
    assert_eq!(refusal(4, condition("False", "Other", "m")), format!("{refused} (Other): m"));
    let mut other = condition("False", "SyncFailed", "m");
    other["type"] = "Other".into();
    assert_eq!(refusal(4, other), refused);
}

#[test]
fn the_last_disruption_that_is_taken_changes_the_condition() {
    let mut budget = common::object(
        "policy",
        "poddisruptionbudgets",
        &json!({"metadata": {"name": "b"}, "spec": {}, "status": {"disruptionsAllowed": 2, "observedGeneration": 7}}),
    );
    let mut spend = |pod: &str, now: &str| {
        budget::spend(&mut PodDisruptionBudgetMut::new(&mut budget), pod, now);
        let status = budget.view::<PodDisruptionBudget<'_>>().unwrap().status();
        let condition = status.conditions().iter().next().map(|condition| {
            let since = condition.last_transition_time().to_owned();
            (condition.status().to_owned(), condition.reason().to_owned(), condition.observed_generation(), since)
        });
        (status.disruptions_allowed(), status.disrupted_pods().len(), condition)
    };
    let (first, second) = ("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z");
    assert_eq!(spend("p", first), (1, 1, None));
    let condition = Some(("False".to_owned(), "InsufficientPods".to_owned(), 7, second.to_owned()));
    assert_eq!(spend("q", second), (0, 2, condition));
}

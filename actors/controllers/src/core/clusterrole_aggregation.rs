//! clusterrole-aggregation-controller: writes the rules of ClusterRoles that aggregate others (upstream `pkg/controller/clusterroleaggregation`).

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Cache, Index, Item, Key, OwnWrites, Project, Reconcile, Requeue};
use oarlock_runtime::Failure;
use oarlock_schema::{Obj, Resource, Value};

use crate::error::Error;
use crate::harness::{Concurrency, Env, Row, Spread, must};
use crate::project::Role;

pub(crate) const ROW: Row = Row {
    name: "clusterrole-aggregation-controller",
    aliases: &["clusterrole-aggregation"],
    account: "clusterrole-aggregation-controller",
    component: "clusterrole-aggregation-controller",
    workers: Concurrency::fixed(2),
    spread: Spread::Key,
    why: "each aggregated role is decided on its own",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

struct Aggregation {
    env: Env,
    roles: Arc<Cache<Role>>,
    own: Arc<OwnWrites>,
    role: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let roles = env.informers.all::<Role>().await?;
    let aggregating: Index<Role> = roles.index("aggregating", |role, value| {
        if role.value.aggregates.is_some() {
            value("");
        }
    });
    let own = Arc::new(OwnWrites::default());
    let shell = env.shell();
    let role = must(Role::RESOURCE)?;
    let this = Aggregation { env, roles: roles.clone(), own: own.clone(), role };
    let controller = shell
        .controller(this)
        .reconciles(&roles)
        .watches(&roles, move |change, enqueue| {
            let states: Vec<&Arc<Item<Role>>> = [&change.old, &change.new].into_iter().flatten().collect();
            for role in aggregating.get("") {
                if states.iter().any(|one| takes(&role.value, one)) {
                    enqueue(role.key().clone());
                }
            }
        })
        .own_writes(&own);
    shell.spawn(controller).await
}

/// Whether an aggregated role selects another role.
fn takes(role: &Role, other: &Item<Role>) -> bool {
    role.aggregates.iter().flatten().any(|selector| selector.matches(&*other.meta.labels))
}

/// Returns the rules of an aggregated role: those of the selected roles in order of name, each rule once. `None` for other roles.
fn rules(role: &Item<Role>, all: &[Arc<Item<Role>>]) -> Option<Vec<Value>> {
    role.value.aggregates.as_ref()?;
    let mut rules: Vec<Value> = Vec::new();
    for other in all.iter().filter(|other| other.key() != role.key() && takes(&role.value, other)) {
        for rule in &other.value.rules {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    Some(rules)
}

#[async_trait]
impl Reconcile for Aggregation {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(role) = self.roles.get(key) else {
            self.own.forget(key);
            return Ok(Requeue::No);
        };
        if role.value.aggregates.is_none() {
            return Ok(Requeue::No);
        }
        let Some(rules) = rules(&role, &self.roles.list()).filter(|rules| *rules != role.value.rules) else {
            return Ok(Requeue::No);
        };
        let mut wanted = Obj::new(self.role.ty);
        wanted.set_at(&["metadata", "name"], key.name.clone());
        wanted.set_at(&["rules"], Value::from_iter(rules));
        match self.env.client.apply(self.role, &wanted, self.env.component, true).await {
            Ok(object) => self.own.wrote(key, &self.roles, object.revision),
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status.into()),
        }
        Ok(Requeue::No)
    }
}

#[cfg(test)]
mod tests {
    use oarlock_informer::ObjMeta;
    use oarlock_meta::LabelSelector;

    use super::*;

    fn role(name: &str, label: &str, rules: &[&str], aggregates: &[&str]) -> Arc<Item<Role>> {
        let selectors = aggregates.iter().map(|label| LabelSelector::from_labels([(*label, "true")]));
        let meta = ObjMeta {
            key: Key::cluster(name),
            labels: Box::new([(label.into(), "true".into())]),
            ..ObjMeta::default()
        };
        let aggregates = (!aggregates.is_empty()).then(|| selectors.collect());
        Arc::new(Item {
            meta,
            value: Role { aggregates, rules: rules.iter().map(|rule| Value::from(*rule)).collect() },
        })
    }

    #[test]
    fn rules_come_from_selected_roles_by_name_and_once() {
        let all = [
            role("admin", "to-admin", &["old"], &["to-admin", "to-edit"]),
            role("b", "to-edit", &["x", "y"], &[]),
            role("c", "to-admin", &["y", "z"], &[]),
            role("d", "to-view", &["w"], &[]),
        ];
        let rules = rules(&all[0], &all).unwrap();
        assert_eq!(rules, ["x", "y", "z"].map(Value::from), "not its own, though it selects itself");
    }

    #[test]
    fn other_roles_are_left_alone() {
        assert_eq!(rules(&role("b", "to-edit", &["x"], &[]), &[]), None);
    }
}

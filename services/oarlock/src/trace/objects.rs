//! Finds the object that the user names, its owners, and the objects that it owns.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use oarlock_client::{Client, ListOptions, Object};
use oarlock_meta::Time;
use oarlock_schema::views::apps_v1;
use oarlock_schema::views::core_v1::{Node, Pod};
use oarlock_schema::views::meta_v1::OwnerReference;
use oarlock_schema::{Obj, RESOURCES, Resource, resource};

use super::plain::plain;
use super::rows::Subject;

/// The most owners above an object that are followed.
const MAX_OWNERS: usize = 4;

/// An object with its resource.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) resource: &'static Resource,
    pub(super) obj: Obj,
}

/// The objects whose lives are shown.
#[derive(Debug)]
pub(super) struct Family {
    /// Owners of the object, the farthest first.
    pub(super) owners: Vec<Found>,
    pub(super) object: Found,
    /// Replica sets and pods that the object owns.
    pub(super) owned: Vec<Found>,
    /// Names of the pods' nodes.
    pub(super) node_names: BTreeSet<String>,
    /// Those Nodes of the pods that the user may read; a Node that does not exist has no object.
    pub(super) nodes: Vec<(String, Option<Obj>)>,
}

impl Family {
    /// Returns the owners, the object, and what it owns.
    pub(super) fn all(&self) -> impl Iterator<Item = &Found> {
        self.owners.iter().chain([&self.object]).chain(&self.owned)
    }
}

impl Found {
    fn new(resource: &'static Resource, object: &Object) -> anyhow::Result<Self> {
        Ok(Self { resource, obj: object.obj().map_err(said)? })
    }

    /// Returns the object if it is a pod.
    pub(super) fn pod(&self) -> Option<Pod<'_>> {
        (self.resource.group.is_empty() && self.resource.plural == "pods").then(|| self.obj.view()).flatten()
    }

    fn uid(&self) -> &str {
        self.obj.meta().uid()
    }

    fn owners(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        self.obj.meta().owner_references().iter()
    }

    /// Returns what a waterfall needs of the object.
    pub(super) fn subject(&self) -> Subject {
        let meta = self.obj.meta();
        let created = Time::parse(meta.creation_timestamp()).map_or(0, Time::unix);
        let generation = meta.generation();
        let verb = if generation <= 1 { "create" } else { "update" };
        Subject {
            title: plain(&format!("{}/{}", self.resource.singular, self.obj.name())),
            change: format!("{} {verb}", self.resource.singular),
            uid: self.uid().to_owned(),
            generation,
            created: u64::try_from(created).unwrap_or(0).saturating_mul(1_000_000_000),
        }
    }
}

/// Splits `KIND/NAME`, with the kind's plural, singular or short name, or the kind itself, in any case.
///
/// # Errors
/// For another form and an unknown kind.
pub(super) fn parse(text: &str) -> anyhow::Result<(&'static Resource, &str)> {
    let Some((kind, name)) = text.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty()) else {
        bail!("{text:?} names no object: write KIND/NAME, as pod/web or deploy/web");
    };
    let wanted = kind.to_lowercase();
    let named = |row: &&Resource| {
        row.plural == wanted
            || row.singular == wanted
            || row.kind.to_lowercase() == wanted
            || row.short_names.contains(&wanted.as_str())
            || format!("{}.{}", row.plural, row.group) == wanted
    };
    let mut rows = RESOURCES.iter().filter(|row| row.has_verb("get") && row.storage.is_some());
    let row = rows.find(named).with_context(|| format!("the server doesn't have a resource type {kind:?}"))?;
    Ok((row, name))
}

/// Reads the object and those around it. Replica sets and pods are found by their owner references.
///
/// # Errors
/// When the object does not exist, or the server refuses.
pub(super) async fn read(
    client: &Client,
    row: &'static Resource,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Family> {
    let namespace = if row.namespaced { namespace } else { "" };
    let object = Found::new(row, &client.get(row, namespace, name).await.map_err(said)?)?;
    let mut owners: Vec<Found> = Vec::new();
    while let Some(owner) = owner(client, owners.last().unwrap_or(&object), namespace).await?
        && owners.len() < MAX_OWNERS
    {
        owners.push(owner);
    }
    owners.reverse();
    let mut owned: Vec<Found> = Vec::new();
    let mut uids = BTreeSet::from([object.uid().to_owned()]);
    let kinds: &[(&str, &str, &str)] = match row.plural {
        "deployments" => &[("apps", "v1", "replicasets"), ("", "v1", "pods")],
        "cronjobs" => &[("batch", "v1", "jobs"), ("", "v1", "pods")],
        "replicasets" | "statefulsets" | "daemonsets" | "jobs" | "replicationcontrollers" => &[("", "v1", "pods")],
        _ => &[],
    };
    for (group, version, plural) in kinds {
        let row = resource(group, version, plural).context("the schema lacks a resource")?;
        let list = client.list(row, namespace, ListOptions::default()).await.map_err(said)?;
        for item in &list.items {
            let found = Found::new(row, item)?;
            if found.owners().any(|owner| uids.contains(owner.uid())) {
                owned.push(found);
            }
        }
        uids.extend(owned.iter().map(|found| found.uid().to_owned()));
    }
    let node_names = node_names(owned.iter().chain([&object]));
    let nodes = nodes(client, &node_names).await?;
    Ok(Family { owners, object, owned, node_names, nodes })
}

/// Reads the controller of an object; `None` without one, and if another object has its name now.
async fn owner(client: &Client, of: &Found, namespace: &str) -> anyhow::Result<Option<Found>> {
    let Some(owner) = of.owners().find(|owner| owner.controller() == Some(true)) else { return Ok(None) };
    let (group, version) = owner.api_version().split_once('/').unwrap_or(("", owner.api_version()));
    let Some(row) = oarlock_schema::resource_of_kind(group, version, owner.kind()) else { return Ok(None) };
    let namespace = if row.namespaced { namespace } else { "" };
    let found = client.find(row, namespace, owner.name()).await.map_err(said)?;
    let found = found.map(|object| Found::new(row, &object)).transpose()?;
    Ok(found.filter(|found| found.uid() == owner.uid()))
}

/// Returns the names of the nodes to which the pods among some objects are bound.
pub(super) fn node_names<'a>(pods: impl Iterator<Item = &'a Found>) -> BTreeSet<String> {
    let names = pods.filter_map(|found| Some(found.pod()?.spec().node_name().to_owned()));
    names.filter(|name| !name.is_empty()).collect()
}

async fn nodes(client: &Client, names: &BTreeSet<String>) -> anyhow::Result<Vec<(String, Option<Obj>)>> {
    let row = resource("", "v1", "nodes").context("the schema lacks nodes")?;
    let mut nodes = Vec::new();
    for name in names {
        match client.find(row, "", name).await {
            Ok(found) => nodes.push((name.clone(), found.map(|object| object.obj()).transpose().map_err(said)?)),
            // A user who may read pods need not be allowed to read Nodes.
            Err(status) if status.code == 403 => {}
            Err(status) => return Err(said(status)),
        }
    }
    Ok(nodes)
}

/// Returns the view of a Node.
pub(super) fn node(obj: &Obj) -> Option<Node<'_>> {
    obj.view()
}

/// Whether a part records the end of the changes of an object's kind: its readiness, or its end.
pub(super) fn has_end(found: &Found) -> bool {
    ["pods", "deployments", "replicasets", "statefulsets", "jobs"].contains(&found.resource.plural)
}

/// Says how far a workload is, or whether a node is ready.
pub(super) fn progress(found: &Found) -> Option<String> {
    if let Some(node) = (found.resource.plural == "nodes").then(|| node(&found.obj)).flatten() {
        let ready = node.status().conditions().iter().find(|condition| condition.type_() == "Ready");
        return Some(ready.map_or_else(
            || "its kubelet has written no status".to_owned(),
            |ready| {
                let state = if ready.status() == "True" { "Ready" } else { "not Ready" };
                let (since, reason, message) = (ready.last_transition_time(), ready.reason(), ready.message());
                plain(&format!("{state} since {since}: {reason}: {message}"))
            },
        ));
    }
    let deployment: Option<apps_v1::Deployment<'_>> =
        (found.resource.plural == "deployments").then(|| found.obj.view()).flatten();
    let deployment = deployment?;
    let (status, wanted) = (deployment.status(), deployment.spec().replicas().unwrap_or(1));
    Some(format!(
        "{} of {wanted} pods are available, {} are up to date",
        status.available_replicas(),
        status.updated_replicas()
    ))
}

pub(super) fn said(status: oarlock_meta::Status) -> anyhow::Error {
    anyhow::anyhow!("{} ({})", status.message, status.code)
}

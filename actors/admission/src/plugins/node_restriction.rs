//! NodeRestriction: a kubelet writes only its own objects: its Node, its Lease, its pods' status, its pods' tokens.

mod claim;
mod labels;
mod mirror;
mod signing_request;
mod token;

use async_trait::async_trait;
use oarlock_meta::{GroupResource, Status};
use oarlock_registry::Reader;
use oarlock_schema::views::core_v1::Pod;
use oarlock_schema::{Obj, canonical};
use oarlock_seeded_bug::seeded_bug;

use super::row;
use crate::attributes::{Attributes, Operation};
use crate::stage::{AdmissionStage, Half};

/// The NodeRestriction stage.
#[derive(Debug)]
pub struct NodeRestriction {
    reader: Reader,
}

/// Creates the stage NodeRestriction.
#[must_use]
pub fn make(reader: &Reader) -> Box<dyn AdmissionStage> {
    Box::new(NodeRestriction { reader: reader.clone() })
}

/// Why a request is refused.
#[derive(Debug)]
enum Refusal {
    /// A 403 with this text.
    Forbidden(String),
    /// An object that the decision needs does not exist.
    Status(Box<Status>),
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Forbidden(why)
    }
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Self::Forbidden(why.to_owned())
    }
}

type Verdict = Result<(), Refusal>;

#[async_trait]
impl AdmissionStage for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation != Operation::Connect
    }

    /// Decides before validation, as upstream, so that a kubelet learns nothing about invalid objects of other nodes.
    fn takes_part(&self, half: Half, _attributes: &Attributes<'_>) -> bool {
        half == Half::Mutating
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let user = attributes.user;
        let Some(node) =
            user.name.strip_prefix("system:node:").filter(|_| user.groups.iter().any(|g| g == "system:nodes"))
        else {
            return Ok(());
        };
        if node.is_empty() {
            return Err(attributes.forbidden(format!("could not determine node from user \"{}\"", user.name)));
        }
        self.decide(attributes, node).await.map_err(|refusal| match refusal {
            Refusal::Forbidden(why) => attributes.forbidden(why),
            Refusal::Status(status) => *status,
        })
    }
}

impl NodeRestriction {
    async fn decide(&self, attributes: &Attributes<'_>, node: &str) -> Verdict {
        match (attributes.resource.group, attributes.resource.plural, attributes.subresource) {
            ("", "pods", "") => self.pod(attributes, node),
            ("", "pods", "status") => pod_status(attributes, node),
            ("", "pods", "eviction") => self.eviction(attributes, node).await,
            ("", "pods", other) => {
                Err(format!("unexpected pod subresource \"{other}\", only 'status' and 'eviction' are allowed").into())
            }
            ("", "nodes", _) => own_node(attributes, node),
            ("", "persistentvolumeclaims", "status") => match (attributes.object.as_deref(), attributes.old) {
                (Some(new), Some(old)) => Ok(claim::check(new, old, node)?),
                _ => Err("unexpected operation".into()),
            },
            ("", "persistentvolumeclaims", _) => Err("may only update PVC status".into()),
            ("", "serviceaccounts", "token") if attributes.operation == Operation::Create => {
                self.token(attributes, node).await
            }
            ("coordination.k8s.io", "leases", _) => lease(attributes, node),
            ("storage.k8s.io", "csinodes", _) => named(attributes, node, "CSINode"),
            ("resource.k8s.io", "resourceslices", _) => slice(attributes, node),
            ("certificates.k8s.io", "certificatesigningrequests", _) if attributes.operation == Operation::Create => {
                Ok(attributes.object.as_deref().map_or(Ok(()), |asked| signing_request::check(asked, node))?)
            }
            _ => Ok(()),
        }
    }

    fn pod(&self, attributes: &Attributes<'_>, node: &str) -> Verdict {
        match attributes.operation {
            Operation::Create => {
                let Some((obj, pod)) = attributes.object.as_deref().and_then(|o| Some((o, o.view::<Pod<'_>>()?)))
                else {
                    return Ok(());
                };
                mirror::check(obj, pod, node)?;
                let own = row("", "v1", "nodes").and_then(|nodes| self.reader.entry(nodes, "", node));
                let Some(own) = own else { return Err(missing("node", node)) };
                Ok(mirror::owned_by(obj, node, &own.uid)?)
            }
            Operation::Delete if !runs_on(attributes.old, node) => {
                Err(format!("node \"{node}\" can only delete pods with spec.nodeName set to itself").into())
            }
            Operation::Delete => Ok(()),
            Operation::Update => Err(unexpected("UPDATE", node)),
            Operation::Connect => Err(unexpected("CONNECT", node)),
        }
    }

    async fn eviction(&self, attributes: &Attributes<'_>, node: &str) -> Verdict {
        let pod = self.stored_pod(attributes.namespace, attributes.name).await?;
        if runs_on(Some(&pod), node) {
            return Ok(());
        }
        Err(format!("node {node} can only evict pods with spec.nodeName set to itself").into())
    }

    /// Checks a token request: tokens are for the accounts of pods on this node. The Node authorizer has checked the account; this checks the
    /// binding.
    async fn token(&self, attributes: &Attributes<'_>, node: &str) -> Verdict {
        let Some(request) = attributes.object.as_deref() else { return Ok(()) };
        let bound = token::bound_to(request)?;
        let pod = self.stored_pod(attributes.namespace, bound.name).await?;
        if pod.meta().uid() != bound.uid {
            let why = "does not match the UID in record. The object might have been deleted and then recreated";
            return Err(format!("the UID in the bound object reference ({}) {why}", bound.uid).into());
        }
        if !runs_on(Some(&pod), node) {
            return Err("node requested token bound to a pod scheduled on a different node".into());
        }
        token::audience(&self.reader, attributes, &pod).await
    }

    async fn stored_pod(&self, namespace: &str, name: &str) -> Result<Obj, Refusal> {
        let Some(pods) = row("", "v1", "pods") else { return Err(missing("pod", name)) };
        let pod = self.reader.fetch(pods, namespace, name).await;
        let pod = pod.map_err(|error| Refusal::Status(Box::new(Status::service_unavailable(error.to_string()))))?;
        pod.ok_or_else(|| missing("pod", name))
    }
}

/// Returns a 404 for an object that the decision needs; upstream's listers name the resource in the singular.
fn missing(resource: &str, name: &str) -> Refusal {
    Refusal::Status(Box::new(Status::not_found(&GroupResource::new("", resource), name)))
}

fn unexpected(operation: &str, node: &str) -> Refusal {
    format!("unexpected operation \"{operation}\", node \"{node}\" can only create and delete mirror pods").into()
}

fn runs_on(pod: Option<&Obj>, node: &str) -> bool {
    pod.and_then(|o| o.view::<Pod<'_>>()).is_some_and(|pod| pod.spec().node_name() == node)
}

fn pod_status(attributes: &Attributes<'_>, node: &str) -> Verdict {
    if !runs_on(attributes.old, node) {
        return Err(
            format!("node \"{node}\" can only update pod status for pods with spec.nodeName set to itself").into()
        );
    }
    let (Some(new), Some(old)) = (attributes.object.as_deref(), attributes.old) else { return Ok(()) };
    if new.at(&["metadata", "labels"]) != old.at(&["metadata", "labels"]) {
        return Err(format!("node \"{node}\" cannot update labels through pod status").into());
    }
    // The Node authorizer lets a kubelet read the claims that these fields name.
    let changes = |field: &str| !canonical::same(new.at(&["status", field]), old.at(&["status", field]));
    if changes("resourceClaimStatuses") {
        return Err(format!("node \"{node}\" cannot update resource claim statues").into());
    }
    if changes("extendedResourceClaimStatus") && !seeded_bug!("a_node_names_its_extended_claim") {
        return Err(format!("node \"{node}\" cannot update extended resource claim status").into());
    }
    Ok(())
}

fn own_node(attributes: &Attributes<'_>, node: &str) -> Verdict {
    let (new, old) = (attributes.object.as_deref(), attributes.old);
    if attributes.operation == Operation::Create {
        let refused = new.map_or_else(Vec::new, |new| labels::refused(new, None));
        if !refused.is_empty() {
            return Err(format!("is not allowed to set the following labels: {}", refused.join(", ")).into());
        }
    }
    let name = name(attributes);
    if name != node {
        return Err(format!("node \"{node}\" is not allowed to modify node \"{name}\"").into());
    }
    let (Operation::Update, Some(new), Some(old)) = (attributes.operation, new, old) else { return Ok(()) };
    let differs = |path: &[&str]| {
        let items = |obj: &'_ Obj| obj.at(path).map_or(&[][..], oarlock_schema::Value::items).to_vec();
        items(new) != items(old)
    };
    if differs(&["spec", "taints"]) {
        return Err(format!("node \"{node}\" is not allowed to modify taints").into());
    }
    let refused = labels::refused(new, Some(old));
    if !refused.is_empty() {
        return Err(format!("is not allowed to modify labels: {}", refused.join(", ")).into());
    }
    if differs(&["metadata", "ownerReferences"]) {
        return Err(format!("node \"{node}\" is not allowed to modify ownerReferences").into());
    }
    Ok(())
}

fn lease(attributes: &Attributes<'_>, node: &str) -> Verdict {
    if attributes.namespace != "kube-node-lease" {
        return Err("can only access leases in the \"kube-node-lease\" system namespace".into());
    }
    named(attributes, node, "node lease")
}

fn slice(attributes: &Attributes<'_>, node: &str) -> Verdict {
    let (slice, verb) = match attributes.operation {
        Operation::Create => (attributes.object.as_deref(), "create"),
        Operation::Delete => (attributes.old, "delete"),
        _ => (attributes.object.as_deref(), "update"),
    };
    if slice.and_then(|s| s.at(&["spec", "nodeName"])).and_then(oarlock_schema::Value::as_str) == Some(node) {
        return Ok(());
    }
    Err(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node").into())
}

fn named(attributes: &Attributes<'_>, node: &str, what: &str) -> Verdict {
    if name(attributes) == node {
        return Ok(());
    }
    Err(format!("can only access {what} with the same name as the requesting node").into())
}

fn name<'a>(attributes: &'a Attributes<'_>) -> &'a str {
    if attributes.name.is_empty() { attributes.object.as_deref().map_or("", |o| o.name()) } else { attributes.name }
}

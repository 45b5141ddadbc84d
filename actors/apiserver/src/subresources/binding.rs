//! `pods/binding`: assigns a pod to a node, once.

use oarlock_client::{Reply, WriteOptions};
use oarlock_meta::field::aggregate;
use oarlock_meta::{ErrorList, FieldError, GroupResource, Path, Revision, Status};
use oarlock_registry::kind::Request;
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::{Binding, Pod, PodMut};

use crate::caller::Caller;
use crate::change::Change;
use crate::identity::{check_uid, failed_precondition};
use crate::pipeline::{Attempt, Commit, Source};
use crate::server::Server;
use crate::target::Target;
use crate::verbs::update::modify;

/// The source of the pipeline for a Binding that was posted to a pod or to the collection of Bindings.
pub(crate) struct PostedBinding<'a> {
    /// The `binding` subresource of the pod.
    pub(crate) pod: Target<'a>,
    pub(crate) options: &'a WriteOptions,
}

impl Source for PostedBinding<'_> {
    type Outcome = Reply;

    const STORED: bool = false;

    fn validate(&mut self, _: &Request<'_>, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let body = attempt.object.as_ref().and_then(|body| Some((body, body.view::<Binding<'_>>()?)));
        let Some((body, binding)) = body else { return Err(Status::bad_request("the body is no Binding")) };
        if body.name() != self.pod.name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        check(binding)
    }

    async fn finish(self, attempt: Attempt<'_>, _: Option<Commit>) -> Result<Reply, Status> {
        let Attempt { server, caller, object: Some(body), .. } = attempt else {
            return Err(Status::internal_error("a binding without a body"));
        };
        bind(server, caller, &self.pod, &body, self.options).await
    }
}

/// Binds a pod as an admitted Binding says.
///
/// # Errors
/// 404; 409 when the pod is bound, being deleted or gated, or has another uid than the Binding states.
async fn bind(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    body: &Obj,
    options: &WriteOptions,
) -> Result<Reply, Status> {
    let Some(binding) = body.view::<Binding<'_>>() else { return Err(Status::bad_request("the body is no Binding")) };
    let node = binding.target().name().to_owned();
    let pod = Target { subresource: "", ..*target };
    let (uid, version) = (body.meta().uid().to_owned(), body.meta().resource_version().to_owned());
    let mut change = |old: &Obj, revision: Revision| -> Result<Change, Status> {
        let conflict = |why: String| Err(Status::conflict(&GroupResource::new("", "pods/binding"), pod.name, why));
        let Some(view) = old.view::<Pod<'_>>() else { return Err(Status::internal_error("stored pod is no pod")) };
        let key = pod.key(pod.name)?;
        check_uid(&pod, &key, &uid, old.meta().uid())?;
        let revision = revision.to_string();
        if !version.is_empty() && version != revision {
            return Err(failed_precondition(&pod, &key, "ResourceVersion", &version, &revision));
        }
        if old.meta().deletion_timestamp().is_some_and(|t| !t.is_empty()) {
            return conflict(format!("pod {} is being deleted, cannot be assigned to a host", pod.name));
        }
        if !view.spec().node_name().is_empty() {
            return conflict(format!("pod {} is already assigned to node \"{}\"", pod.name, view.spec().node_name()));
        }
        if !view.spec().scheduling_gates().is_empty() {
            return conflict(format!("pod {} has non-empty .spec.schedulingGates", pod.name));
        }
        let mut obj = old.clone();
        let mut changed = PodMut::new(&mut obj);
        changed.spec_mut().set_node_name(node.as_str());
        // The nominated node is obsolete once the pod is bound.
        changed.status_mut().clear_nominated_node_name();
        for (key, value) in body.meta().annotations().iter() {
            changed.metadata_mut().annotations_mut().insert(key, value);
        }
        // As upstream, all labels of a Binding override those of the pod. They are meant for the topology of the node.
        for (key, value) in body.meta().labels().iter() {
            changed.metadata_mut().labels_mut().insert(key, value);
        }
        super::condition(&mut changed, "PodScheduled", "", "");
        Ok(Change::own(obj))
    };
    modify(server, caller, target, options, &mut change).await?;
    Ok(Reply::Status(Status { code: 201, ..Status::success() }))
}

/// Checks the target of a Binding.
///
/// # Errors
/// 500 for a target that is not a node.
fn check(binding: Binding<'_>) -> Result<(), Status> {
    let path = Path::new("target");
    let mut errors = ErrorList::default();
    let kind = binding.target().kind();
    if !kind.is_empty() && kind != "Node" {
        errors.push(FieldError::not_supported(&path.child("kind"), kind, &["Node", "<empty>"]));
    }
    if binding.target().name().is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    if errors.is_empty() {
        return Ok(());
    }
    // Upstream returns the list as a plain error.
    Err(Status::custom(500, "", aggregate(errors.as_slice())))
}

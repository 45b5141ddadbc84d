//! Creates the pods of an owner, each at most once even if the answer to a create is lost.
//!
//! The controller chooses each pod's name before its first request, with the form of a name that the server makes from `generateName`. A create of unknown outcome is
//! looked up by that name, and repeated under the same name ([`PodNames`]).

use std::sync::Arc;

use oarlock_client::{Client, Object};
use oarlock_informer::{Cache, CacheRevision, Key, ObjMeta};
use oarlock_meta::Status;
use oarlock_runtime::rng;
use oarlock_schema::{Obj, Resource};

use crate::pod_names::{Outcome, PodName, PodNames};
use crate::project::PodView;
use crate::write;

/// The creates of a controller of pods.
pub(crate) struct PodCreates {
    client: Client,
    resource: &'static Resource,
    pods: Arc<Cache<PodView>>,
    owners: Arc<dyn CacheRevision>,
    names: PodNames,
}

impl PodCreates {
    /// Creates of pods whose owners are in the cache `owners`.
    pub(crate) fn new(
        client: &Client,
        resource: &'static Resource,
        pods: &Arc<Cache<PodView>>,
        owners: &Arc<impl CacheRevision>,
    ) -> Self {
        let (pods, owners, names) = (pods.clone(), owners.clone(), PodNames::default());
        Self { client: client.clone(), resource, pods, owners, names }
    }

    /// Creates pods, which have a `generateName` and no name, as [`write::slow_start`] does. Returns an answer for each request, in the order of `pods`. A pod that an
    /// earlier request made counts as created.
    pub(crate) async fn create(&self, owner: &ObjMeta, pods: &[&Obj]) -> Vec<Result<Object, Status>> {
        self.names.sweep(|key, uid| self.owners.holds(key, uid));
        let shown = |name: &str| self.pods.named(owner.namespace(), name).is_some();
        let prefixes = pods.iter().map(|pod| pod.meta().generate_name());
        let names = self.names.open(owner, prefixes, shown, rng::u64);
        let call = |at: usize| {
            let pod = pods.get(at).zip(names.get(at)).map(|(pod, PodName { name, .. })| {
                let mut pod = Obj::clone(pod);
                pod.set_at(&["metadata", "name"], name.as_str());
                pod
            });
            async move {
                let pod = pod.ok_or_else(|| Status::internal_error("a pod that was not planned"))?;
                self.create_one(owner, pod).await
            }
        };
        let answers = write::slow_start(pods.len(), call).await;
        self.names.close(owner, names.iter().enumerate().map(|(at, name)| (name, outcome(answers.get(at)))));
        answers
    }

    async fn create_one(&self, owner: &ObjMeta, pod: Obj) -> Result<Object, Status> {
        let key = Key::new(owner.namespace(), pod.name());
        let status = match self.client.create(self.resource, pod).await {
            Ok(object) => return Ok(object),
            Err(status) => status,
        };
        if !status.is_already_exists() && !status.has_unknown_outcome() {
            return Err(status);
        }
        match write::find_listed(&self.client, self.resource, &key).await {
            Ok(Some(found)) if is_controlled(&found, owner)? => {
                tracing::info!(pod = %key, %status, "pod of a create without an answer found");
                Ok(found)
            }
            // The pod may still be made, unless another's pod has the name.
            Ok(_) => Err(status),
            // Nobody knows whose pod it is, so the name must stay open.
            Err(unread) if status.is_already_exists() => Err(unread),
            Err(_) => Err(status),
        }
    }
}

/// Returns the outcome of a create that was answered like this; `None` if no request was sent. A refused request, too, leaves the outcome unknown, because an earlier
/// request of the same name may still arrive.
fn outcome(answer: Option<&Result<Object, Status>>) -> Outcome {
    match answer {
        None => Outcome::Unsent,
        Some(Ok(_)) => Outcome::Known,
        Some(Err(status)) if status.is_already_exists() => Outcome::Known,
        Some(Err(_)) => Outcome::Unknown,
    }
}

fn is_controlled(pod: &Object, owner: &ObjMeta) -> Result<bool, Status> {
    let pod = ObjMeta::read(&pod.obj()?, pod.revision, false);
    Ok(pod.controller().is_some_and(|controller| controller.uid == owner.uid))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use oarlock_client::{Call, List, ListOptions, RawReply, RawRequest, Reply, Request, Transport, WatchStream};
    use oarlock_informer::Project;
    use oarlock_meta::{GroupResource, Revision, Uid};
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::project::Job;

    fn pods() -> &'static Resource {
        PodView::RESOURCE.find().unwrap()
    }

    /// A server that answers each create with the same error and each list with the same pods.
    struct Server {
        error: Status,
        found: Result<Vec<Object>, Status>,
        /// The names of the pods to create.
        names: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl Transport for Server {
        async fn call(&self, request: Request) -> Result<Reply, Status> {
            if let Call::Create(pod, _) = request.call {
                self.names.lock().push(pod.name().to_owned());
                return Err(self.error.clone());
            }
            Ok(Reply::List(List { items: self.found.clone()?, ..List::default() }))
        }

        async fn watch(&self, _: &'static Resource, _: &str, _: ListOptions) -> Result<WatchStream, Status> {
            Err(Status::service_unavailable("no watches here"))
        }

        async fn raw(&self, _: RawRequest) -> Result<RawReply, Status> {
            Err(Status::service_unavailable("no raw requests here"))
        }
    }

    /// Creates a pod twice; returns whether the first create counts as done, and whether both had the same name.
    async fn create_twice(error: &Status, found: Result<Vec<Object>, Status>) -> (bool, bool) {
        let server = Arc::new(Server { error: error.clone(), found, names: Mutex::default() });
        let client = Client::new(server.clone());
        let creates = PodCreates::new(&client, pods(), &Arc::default(), &Arc::new(Cache::<Job>::default()));
        let owner = ObjMeta { key: Key::new("ns", "work"), uid: Uid::from("job"), ..ObjMeta::default() };
        let mut pod = Obj::new(pods().ty);
        pod.set_at(&["metadata", "generateName"], "work-0-");
        let first = creates.create(&owner, &[&pod]).await;
        creates.create(&owner, &[&pod]).await;
        let names = server.names.lock();
        assert!(names.len() == 2 && names.iter().all(|name| name.starts_with("work-0-")), "{names:?}");
        (first[0].is_ok(), names[0] == names[1])
    }

    #[tokio::test]
    async fn a_pod_counts_as_created_if_it_exists_and_is_the_owners() {
        let controlled = |uid: &str| {
            let owner =
                json!({"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": uid, "controller": true});
            let pod = json!({"metadata": {"name": "a", "resourceVersion": "7", "ownerReferences": [owner]}});
            Ok(vec![Object::new(pods().ty, pod.to_string().into(), Revision(7))])
        };
        let resource = GroupResource::new("", "pods");
        let (lost, taken) = (Status::timeout("no answer", 0), Status::already_exists(&resource, "a"));
        let unreadable = || Err(Status::service_unavailable("no answer"));
        assert_eq!(create_twice(&lost, controlled("job")).await, (true, false));
        assert_eq!(create_twice(&taken, controlled("job")).await, (true, false));
        // The pod may still be made.
        assert_eq!(create_twice(&lost, Ok(Vec::new())).await, (false, true));
        assert_eq!(create_twice(&lost, unreadable()).await, (false, true));
        assert_eq!(create_twice(&taken, unreadable()).await, (false, true));
        // Another's pod has the name, or had it a moment ago.
        assert_eq!(create_twice(&taken, controlled("another")).await, (false, false));
        assert_eq!(create_twice(&taken, Ok(Vec::new())).await, (false, false));
        // A refusal is not looked up.
        assert_eq!(create_twice(&Status::forbidden(&resource, "a", "quota"), controlled("job")).await, (false, true));
    }
}

//! The verbs by name, so that callers write one line.

use bytes::Bytes;
use oarlock_meta::Status;
use oarlock_schema::{Obj, Resource};

use crate::bodies;
use crate::client::{Client, unexpected};
use crate::object::{List, Object};
use crate::options::{DeleteOptions, GetOptions, ListOptions, PatchType, WriteOptions};
use crate::request::{Call, Reply};

/// What a delete left behind.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// The object, either already gone or with a deletion timestamp (grace period, finalizers).
    Object(Object),
    /// It is gone; the details name it.
    Status(Status),
}

impl Client {
    /// Reads one object, most recent state.
    ///
    /// # Errors
    /// 404 when there is none; otherwise the server's Status.
    pub async fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Result<Object, Status> {
        self.object(resource, "", namespace, name, Call::Get(GetOptions::default())).await
    }

    /// Reads one object, most recent state; `None` when there is none.
    ///
    /// # Errors
    /// The server's Status, except 404.
    pub async fn find(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>, Status> {
        match self.get(resource, namespace, name).await {
            Ok(object) => Ok(Some(object)),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Creates an object in the namespace it names.
    ///
    /// # Errors
    /// 409 AlreadyExists; otherwise the server's Status.
    pub async fn create(&self, resource: &'static Resource, object: Obj) -> Result<Object, Status> {
        let namespace = object.namespace().to_owned();
        self.object(resource, "", &namespace, "", Call::Create(object, WriteOptions::default())).await
    }

    /// Replaces the object of this name; the resourceVersion in it must be the current one.
    ///
    /// # Errors
    /// 409 when it is not; otherwise the server's Status.
    pub async fn update(&self, resource: &'static Resource, object: Obj) -> Result<Object, Status> {
        self.update_subresource(resource, "", object).await
    }

    /// Replaces the status of the object of this name.
    ///
    /// # Errors
    /// As [`Client::update`].
    pub async fn update_status(&self, resource: &'static Resource, object: Obj) -> Result<Object, Status> {
        self.update_subresource(resource, "status", object).await
    }

    /// Replaces a subresource of the object of this name.
    ///
    /// # Errors
    /// As [`Client::update`].
    pub async fn update_subresource(
        &self,
        resource: &'static Resource,
        subresource: &'static str,
        object: Obj,
    ) -> Result<Object, Status> {
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        self.object(resource, subresource, &namespace, &name, Call::Update(object, WriteOptions::default())).await
    }

    /// Changes an object, or a subresource where `subresource` is not empty.
    ///
    /// # Errors
    /// The server's Status.
    pub async fn patch(
        &self,
        resource: &'static Resource,
        subresource: &'static str,
        (namespace, name): (&str, &str),
        patch: (PatchType, impl Into<Bytes> + Send),
        options: WriteOptions,
    ) -> Result<Object, Status> {
        self.object(resource, subresource, namespace, name, Call::Patch(patch.0, patch.1.into(), options)).await
    }

    /// Applies a partial object as `manager` (server-side apply), creating it if need be.
    ///
    /// # Errors
    /// 409 with causes when others own the fields and `force` is false; otherwise the server's Status.
    pub async fn apply(
        &self,
        resource: &'static Resource,
        object: &Obj,
        manager: &str,
        force: bool,
    ) -> Result<Object, Status> {
        let options = WriteOptions { field_manager: manager.into(), force, ..WriteOptions::default() };
        let key = (object.namespace(), object.name());
        self.patch(resource, "", key, (PatchType::Apply, crate::encode(object)), options).await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// 404 when there is none, 409 when a precondition fails; otherwise the server's Status.
    pub async fn delete(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<Deleted, Status> {
        match self.call(resource, "", namespace, name, Call::Delete(options)).await? {
            Reply::Object { object, .. } => Ok(Deleted::Object(object)),
            Reply::Status(status) => Ok(Deleted::Status(status)),
            other => Err(unexpected("an object or a Status", &other)),
        }
    }

    /// Deletes what `which` selects; answers with what was deleted.
    ///
    /// # Errors
    /// The server's Status.
    pub async fn delete_collection(
        &self,
        resource: &'static Resource,
        namespace: &str,
        which: ListOptions,
        options: DeleteOptions,
    ) -> Result<List, Status> {
        match self.call(resource, "", namespace, "", Call::DeleteCollection(which, options)).await? {
            Reply::List(list) => Ok(list),
            Reply::Status(_) => Ok(List::default()),
            other => Err(unexpected("a list", &other)),
        }
    }

    /// Binds a pod to a node. With a uid it must still be that incarnation.
    ///
    /// # Errors
    /// 404 when there is no such pod, 409 when it is bound already or is another incarnation; otherwise the server's Status.
    pub async fn bind(&self, namespace: &str, pod: &str, uid: &str, node: &str) -> Result<(), Status> {
        let binding = bodies::binding(namespace, pod, uid, node)?;
        self.call(bodies::pods()?, "binding", namespace, pod, Call::Create(binding, WriteOptions::default()))
            .await
            .map(|_| ())
    }

    /// Evicts a pod, subject to its disruption budgets.
    ///
    /// # Errors
    /// 429 with cause `DisruptionBudget` when a budget forbids it; otherwise the server's Status.
    pub async fn evict(&self, namespace: &str, pod: &str, options: &DeleteOptions) -> Result<(), Status> {
        let eviction = bodies::eviction(namespace, pod, options)?;
        self.call(bodies::pods()?, "eviction", namespace, pod, Call::Create(eviction, WriteOptions::default()))
            .await
            .map(|_| ())
    }
}

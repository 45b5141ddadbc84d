//! One method of [`Client`] per verb.

use bytes::Bytes;
use oarlock_meta::Status;
use oarlock_schema::{Obj, Resource};

use crate::bodies;
use crate::client::{Client, unexpected};
use crate::object::{List, Object};
use crate::options::{DeleteOptions, GetOptions, ListOptions, PatchType, WriteOptions};
use crate::request::{Call, Reply};

/// Result of a delete.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// The object: already deleted, or with a deletion timestamp (grace period, finalizers).
    Object(Object),
    /// The object is deleted; the details name it.
    Status(Status),
}

impl Client {
    /// Reads the most recent state of one object.
    ///
    /// # Errors
    /// 404 when the object does not exist; otherwise the server's Status.
    pub async fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Result<Object, Status> {
        self.object(resource, "", namespace, name, Call::Get(GetOptions::default())).await
    }

    /// Reads the most recent state of one object; `None` when the object does not exist.
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

    /// Creates an object in its own namespace.
    ///
    /// # Errors
    /// 409 AlreadyExists; otherwise the server's Status.
    pub async fn create(&self, resource: &'static Resource, object: Obj) -> Result<Object, Status> {
        let namespace = object.namespace().to_owned();
        self.object(resource, "", &namespace, "", Call::Create(object, WriteOptions::default())).await
    }

    /// Replaces the object of the same name; its resourceVersion must be the current one.
    ///
    /// # Errors
    /// 409 when the resourceVersion is not current; otherwise the server's Status.
    pub async fn update(&self, resource: &'static Resource, object: Obj) -> Result<Object, Status> {
        self.update_subresource(resource, "", object).await
    }

    /// Replaces the status of the object of the same name.
    ///
    /// # Errors
    /// As [`Client::update`].
    pub async fn update_status(&self, resource: &'static Resource, object: Obj) -> Result<Object, Status> {
        self.update_subresource(resource, "status", object).await
    }

    /// Replaces a subresource of the object of the same name.
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

    /// Patches an object, or a subresource where `subresource` is not empty.
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

    /// Applies a partial object as `manager` (server-side apply); creates the object if necessary.
    ///
    /// # Errors
    /// 409 with causes when other managers own the fields and `force` is false; otherwise the server's Status.
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
    /// 404 when the object does not exist, 409 when a precondition fails; otherwise the server's Status.
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

    /// Deletes the objects that `which` selects; returns the deleted objects.
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

    /// Binds a pod to a node. A non-empty `uid` must be the pod's uid.
    ///
    /// # Errors
    /// 404 when the pod does not exist, 409 when it is already bound or has another uid; otherwise the server's Status.
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

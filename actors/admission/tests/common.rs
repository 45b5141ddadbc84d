//! Shared helpers: a View filled by hand, and requests sent through the chain as the server does.

use std::sync::Arc;

use oarlock_admission::turns::QueueGuard;
use oarlock_admission::{Attributes, Chain, Operation, RequestContext, Subject, UserPermissions, table};
use oarlock_bus::Bus;
use oarlock_cel::{AccessQuery, Authorizer, Decision};
use oarlock_codec::Mode;
use oarlock_meta::{Revision, Status};
use oarlock_registry::{Reader, key, stored};
use oarlock_runtime::clock;
use oarlock_schema::{Obj, RESOURCES, Resource, TypeRef};
use oarlock_storage::Append;
use oarlock_store::{Change, Entry, View};
use serde_json::{Value, json};

/// A server's state and stages.
pub(crate) struct World {
    pub(crate) view: View,
    pub(crate) chain: Chain,
    pub(crate) rights: Option<Only>,
    pub(crate) bus: Option<Bus>,
}

/// An authorizer that allows one verb on one resource, or on one object of it, and nothing else.
#[derive(Clone, Copy)]
pub(crate) struct Only(pub(crate) &'static str, pub(crate) &'static str, pub(crate) Option<&'static str>);

impl Authorizer for Only {
    fn check(&self, query: &AccessQuery) -> Decision {
        let named = self.2.is_none_or(|name| query.name == name);
        let allowed = query.verb == self.0 && query.resource == self.1 && named;
        Decision { allowed, reason: String::new(), error: None }
    }
}

/// One admission request.
#[derive(Clone)]
pub(crate) struct Ask<'a> {
    pub(crate) operation: Operation,
    pub(crate) resource: &'static Resource,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user: &'a str,
    pub(crate) groups: &'a [String],
}

/// The result of an admitted request.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) object: Option<Obj>,
    pub(crate) together: Vec<Append>,
    pub(crate) held: Vec<QueueGuard>,
    pub(crate) warnings: Vec<String>,
}

pub(crate) fn resource(plural: &str) -> &'static Resource {
    RESOURCES.iter().find(|r| r.plural == plural).unwrap()
}

pub(crate) fn decode(value: &Value, ty: TypeRef) -> Obj {
    let mut value = value.clone();
    if let Some(gvk) = ty.gvk {
        let group = if gvk.group.is_empty() { String::new() } else { format!("{}/", gvk.group) };
        value["apiVersion"] = json!(format!("{group}{}", gvk.version));
        value["kind"] = json!(gvk.kind);
    }
    let mut obj = oarlock_codec::json::decode(value.to_string().as_bytes(), ty, Mode::Lenient).unwrap().value;
    oarlock_apis::default(&mut obj);
    obj
}

pub(crate) fn encode(obj: &Obj) -> Value {
    serde_json::from_slice(&oarlock_codec::json::encode(obj).bytes).unwrap()
}

impl World {
    pub(crate) fn new() -> Self {
        let view = View::new(1 << 20);
        let chain = Chain::new(table::stages(&Reader::new(view.clone())));
        Self { view, chain, rights: None, bus: None }
    }

    /// Adds a namespace with its default account.
    pub(crate) fn with_namespace(name: &str) -> Self {
        let world = Self::new();
        world.put("namespaces", &json!({"metadata": {"name": name}}));
        world.put("serviceaccounts", &json!({"metadata": {"name": "default", "namespace": name}}));
        world
    }

    /// Stores an object as a committed write would.
    pub(crate) fn put(&self, plural: &str, value: &Value) {
        let resource = resource(plural);
        let mut obj = decode(value, resource.ty);
        let key = key::key(resource, obj.namespace(), obj.name()).unwrap();
        let encoded = stored::encode(&key, &mut obj);
        let revision = Revision(self.view.applied().get() + 1);
        let prev = self.view.get(&key).map(|entry| entry.revision);
        let entry = Some(Arc::new(Entry::new(key.clone(), &encoded.value, revision, encoded.parts)));
        self.view.apply(&[Change { key, revision, prev, entry }]).unwrap();
    }

    /// Sends a request through the chain: first the mutating half, then the validating one.
    pub(crate) async fn ask(&self, ask: &Ask<'_>, object: Option<Obj>, old: Option<&Obj>) -> Result<Admitted, Status> {
        let mut object = object;
        if let Some(mut meta) = object.as_mut().filter(|_| ask.resource.namespaced).and_then(Obj::meta_mut) {
            meta.set_namespace(ask.namespace);
        }
        let mut context = RequestContext::new(clock::never(), false);
        for validating in [false, true] {
            let mut attributes = Attributes {
                operation: ask.operation,
                resource: ask.resource,
                subresource: ask.subresource,
                namespace: ask.namespace,
                name: ask.name,
                user: Subject::new(ask.user, ask.groups),
                object: object.as_mut(),
                old,
                context: &mut context,
                authorizer: self.rights.as_ref().map(|rights| UserPermissions::new(rights)),
                bus: self.bus.clone(),
            };
            if validating {
                self.chain.validate(&mut attributes).await?;
            } else {
                self.chain.admit(&mut attributes).await?;
            }
        }
        let RequestContext { together, held, warnings, .. } = context;
        Ok(Admitted { object, together, held, warnings })
    }

    /// Creates an object as an administrator.
    pub(crate) async fn create(&self, plural: &str, namespace: &str, value: &Value) -> Result<Admitted, Status> {
        let resource = resource(plural);
        let ask = Ask {
            operation: Operation::Create,
            resource,
            subresource: "",
            namespace,
            name: "",
            user: "admin",
            groups: &[],
        };
        self.ask(&ask, Some(decode(value, resource.ty)), None).await
    }
}

//! Questions about requests, and the answers of policies.

use std::collections::BTreeMap;

use oarlock_schema::Obj;
use serde::{Deserialize, Serialize};

use super::compiled::PolicyId;
use super::wire;
use crate::attributes::{Attributes, Operation};

/// All inputs of an evaluation except the policies and the authorizer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Question {
    /// The request to evaluate.
    pub input: Input,
    /// The policies and bindings to evaluate, in order.
    pub asked: Vec<BoundPolicy>,
}

/// Types whose objects are secret, or contain tokens in clear text.
const SECRET: [&str; 3] = ["core/v1.Secret", "authentication/v1.TokenReview", "authentication/v1.TokenRequest"];

impl Question {
    /// Whether an object or parameter of the question is secret; such a question must not leave the process.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        let Input { object, old, .. } = &self.input;
        let params = self.asked.iter().flat_map(|asked| &asked.params).flatten();
        object.iter().chain(old).chain(params).any(|obj| SECRET.contains(&obj.ty().name))
    }
}

/// A request with its objects.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Input {
    /// The request without its objects.
    pub request: Request,
    /// The new object; `None` for deletions.
    #[serde(with = "wire")]
    pub object: Option<Obj>,
    /// The stored object; `None` for creations.
    #[serde(with = "wire")]
    pub old: Option<Obj>,
    /// The object's namespace; `None` for cluster-scoped objects and for namespaces.
    #[serde(with = "wire")]
    pub namespace: Option<Obj>,
}

/// A request without its objects (upstream `admission/v1.AdmissionRequest`). An empty text means "not given".
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Request {
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT`.
    pub operation: String,
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Group, version and kind of the endpoint's body.
    pub kind: [String; 3],
    /// The namespace; for a namespace its own name.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The user who makes the request.
    pub user: User,
    /// Whether nothing is to be stored.
    pub dry_run: bool,
}

/// The user who makes a request.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct User {
    /// The user name.
    pub name: String,
    /// The uid, unique for ever; empty if the authenticator gives none.
    pub uid: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A policy with one of its bindings, to be evaluated.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BoundPolicy {
    /// The policy.
    pub policy: PolicyId,
    /// The binding's name.
    pub binding: String,
    /// The actions on a violation.
    pub actions: Vec<Action>,
    /// The sets of parameters, each evaluated once; one `None` for a policy without parameters.
    #[serde(with = "wire::list")]
    pub params: Vec<Option<Obj>>,
}

/// The effect of a policy's violation (upstream: `validationActions`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Action {
    /// The request is refused.
    Deny,
    /// The client gets a warning.
    Warn,
    /// The violation is recorded in the audit log.
    Audit,
}

/// The result of all policies for a request.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The reasons for refusing the request; empty when it is allowed. The first one is returned to the client.
    pub denials: Vec<Denial>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Keys and values of audit annotations.
    pub annotations: Vec<(String, String)>,
}

/// One reason for refusing a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Denial {
    /// The policy's name.
    pub policy: String,
    /// The binding's name; `None` when the policy itself is invalid.
    pub binding: Option<String>,
    /// The text for the client.
    pub message: String,
    /// Upstream's reason: `Forbidden`, `Invalid`, `RequestEntityTooLarge`.
    pub reason: String,
}

impl Action {
    /// Parses an action of a binding; validation allows no other text.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "Deny" => Some(Self::Deny),
            "Warn" => Some(Self::Warn),
            "Audit" => Some(Self::Audit),
            _ => None,
        }
    }
}

impl Request {
    /// Creates the request from the attributes, without its objects.
    #[must_use]
    pub fn of(attributes: &Attributes<'_>) -> Self {
        let resource = attributes.resource;
        let kind = resource.subresource(attributes.subresource).map_or_else(|| resource.gvk(), |sub| sub.gvk);
        let operation = match attributes.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        };
        let name = match attributes.object.as_deref().map(Obj::name) {
            Some(name) if attributes.name.is_empty() => name,
            _ => attributes.name,
        };
        let namespaces = resource.group.is_empty() && resource.plural == "namespaces";
        let user = &attributes.user;
        Self {
            operation: operation.to_owned(),
            group: resource.group.to_owned(),
            version: resource.version.to_owned(),
            resource: resource.plural.to_owned(),
            subresource: attributes.subresource.to_owned(),
            kind: [kind.group, kind.version, kind.kind].map(str::to_owned),
            namespace: if namespaces { name } else { attributes.namespace }.to_owned(),
            name: name.to_owned(),
            user: User {
                name: user.name.to_owned(),
                uid: user.uid.to_owned(),
                groups: user.groups.to_vec(),
                extra: user.extra.cloned().unwrap_or_default(),
            },
            dry_run: attributes.context.dry_run,
        }
    }

    /// Whether the request is for a namespace object.
    #[must_use]
    pub fn is_of_namespaces(&self) -> bool {
        self.group.is_empty() && self.resource == "namespaces"
    }
}

//! What is asked about a request, and what is answered.

use std::collections::BTreeMap;

use oarlock_schema::Obj;
use serde::{Deserialize, Serialize};

use super::compiled::PolicyId;
use super::wire;
use crate::attributes::{Attributes, Operation};

/// Everything that a judgement depends on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Question {
    /// What is to be judged.
    pub input: Input,
    /// By which policies, in order.
    pub asked: Vec<Asked>,
}

/// Types whose objects are secrets, or hold tokens in the clear.
const SECRET: [&str; 3] = ["core/v1.Secret", "authentication/v1.TokenReview", "authentication/v1.TokenRequest"];

impl Question {
    /// Whether an object or parameter of the question is secret: such a question must not leave the process.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        let Input { object, old, .. } = &self.input;
        let params = self.asked.iter().flat_map(|asked| &asked.params).flatten();
        object.iter().chain(old).chain(params).any(|obj| SECRET.contains(&obj.ty().name))
    }
}

/// What a request does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Input {
    /// All but the objects.
    pub request: Request,
    /// The object as it will be; none when it is deleted.
    #[serde(with = "wire")]
    pub object: Option<Obj>,
    /// The object as it is; none when it is new.
    #[serde(with = "wire")]
    pub old: Option<Obj>,
    /// The namespace that the object is in; none for the cluster's objects, and for namespaces.
    #[serde(with = "wire")]
    pub namespace: Option<Obj>,
}

/// A request, but for its objects (upstream `admission/v1.AdmissionRequest`). Empty text means "not given".
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
    /// Group, version and kind of what is sent to that endpoint.
    pub kind: [String; 3],
    /// The namespace; of a namespace its own name.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Who asks.
    pub user: User,
    /// Nothing will be kept.
    pub dry_run: bool,
}

/// Who makes a request.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct User {
    /// User name.
    pub name: String,
    /// Unique for ever, where there is such a thing.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// One policy and binding.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// The policy.
    pub policy: PolicyId,
    /// The binding's name.
    pub binding: String,
    /// What happens to what the policy does not allow.
    pub actions: Vec<Action>,
    /// The policy judges once with each; once with none where it has no parameters.
    #[serde(with = "wire::list")]
    pub params: Vec<Option<Obj>>,
}

/// What happens to what a policy does not allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Action {
    /// It is refused.
    Deny,
    /// Who asked is told.
    Warn,
    /// It is written down.
    Audit,
}

/// What policies make of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// Why it is refused; not at all when empty. The first one is told.
    pub denials: Vec<Denial>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Names and values to be written down about the request.
    pub annotations: Vec<(String, String)>,
}

/// One reason to refuse.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Denial {
    /// The policy's name.
    pub policy: String,
    /// The binding's name; none when the policy itself is not right.
    pub binding: Option<String>,
    /// Why.
    pub message: String,
    /// Upstream's word for it: `Forbidden`, `Invalid`, `RequestEntityTooLarge`.
    pub reason: String,
}

impl Action {
    /// The action of a word in a binding; validation lets no other word in.
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
    /// What is known of a request, but for its objects.
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

    /// Whether the request is about a namespace itself.
    #[must_use]
    pub fn is_of_namespaces(&self) -> bool {
        self.group.is_empty() && self.resource == "namespaces"
    }
}

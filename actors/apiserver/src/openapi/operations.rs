//! The operations of each resource, independent of the OpenAPI version.

use oarlock_schema::{Gvk, RESOURCES, Resource, Subresource, TypeRef, type_named};

/// A query or path parameter: name, type, and whether it is a path parameter.
pub(super) type Parameter = (&'static str, &'static str, bool);

const NAME: Parameter = ("name", "string", true);
const NAMESPACE: Parameter = ("namespace", "string", true);
const PRETTY: Parameter = ("pretty", "string", false);
const WRITE: [Parameter; 3] =
    [("dryRun", "string", false), ("fieldManager", "string", false), ("fieldValidation", "string", false)];
const FORCE: Parameter = ("force", "boolean", false);
const SELECT: [Parameter; 8] = [
    ("continue", "string", false),
    ("fieldSelector", "string", false),
    ("labelSelector", "string", false),
    ("limit", "integer", false),
    ("resourceVersion", "string", false),
    ("resourceVersionMatch", "string", false),
    ("sendInitialEvents", "boolean", false),
    ("timeoutSeconds", "integer", false),
];
const WATCH: [Parameter; 2] = [("allowWatchBookmarks", "boolean", false), ("watch", "boolean", false)];
const DELETE: [Parameter; 5] = [
    ("dryRun", "string", false),
    ("gracePeriodSeconds", "integer", false),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean", false),
    ("orphanDependents", "boolean", false),
    ("propagationPolicy", "string", false),
];
const LOG: [Parameter; 10] = [
    ("container", "string", false),
    ("follow", "boolean", false),
    ("insecureSkipTLSVerifyBackend", "boolean", false),
    ("limitBytes", "integer", false),
    ("previous", "boolean", false),
    ("sinceSeconds", "integer", false),
    ("stream", "string", false),
    ("tailLines", "integer", false),
    ("timestamps", "boolean", false),
    PRETTY,
];
const STREAMS: [Parameter; 6] = [
    ("command", "string", false),
    ("container", "string", false),
    ("stderr", "boolean", false),
    ("stdin", "boolean", false),
    ("stdout", "boolean", false),
    ("tty", "boolean", false),
];

/// The body of a request.
#[derive(Clone, Copy)]
pub(super) enum Body {
    /// Nothing.
    None,
    /// An object of this type.
    Object(TypeRef),
    /// A patch.
    Patch,
    /// Options of a deletion; the body is optional.
    DeleteOptions,
}

/// The content of an answer.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    /// An object of this type.
    Object(TypeRef),
    /// A list, or a stream of events in a watch.
    List(TypeRef),
    /// Text.
    Text,
    /// Any content, decided by the proxied server.
    Any,
}

/// One HTTP method of a path.
pub(super) struct Operation {
    /// HTTP method, lower case.
    pub(super) method: &'static str,
    /// `x-kubernetes-action`.
    pub(super) action: &'static str,
    /// First word of the operation's identifier.
    pub(super) verb: &'static str,
    /// Last word of the operation's identifier.
    pub(super) suffix: &'static str,
    /// Query parameters.
    pub(super) parameters: Vec<Parameter>,
    /// Request body.
    pub(super) body: Body,
    /// Content of the answer.
    pub(super) answer: Answer,
    /// Success codes.
    pub(super) codes: &'static [u16],
}

/// One path with its operations.
pub(super) struct Endpoint {
    /// Path template, such as `/api/v1/namespaces/{namespace}/pods`.
    pub(super) path: String,
    /// Parameters of all operations.
    pub(super) parameters: Vec<Parameter>,
    /// Kind that the operations are about.
    pub(super) gvk: Gvk,
    /// Middle part of the operations' identifiers, such as `NamespacedPodLog`.
    pub(super) subject: String,
    /// The operations of the path.
    pub(super) operations: Vec<Operation>,
}

/// Returns all paths of a group and version.
pub(super) fn endpoints(group: &str, version: &str) -> Vec<Endpoint> {
    let mut all = Vec::new();
    for resource in RESOURCES.iter().filter(|r| (r.group, r.version) == (group, version)) {
        main(resource, &mut all);
        for sub in resource.subresources {
            all.extend(subresource(resource, sub));
        }
    }
    all
}

fn root(resource: &Resource) -> String {
    let version = resource.group_version();
    if resource.group.is_empty() { format!("/api/{version}") } else { format!("/apis/{version}") }
}

fn object_path(resource: &Resource) -> String {
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    format!("{}{scope}/{}/{{name}}", root(resource), resource.plural)
}

fn shared(resource: &Resource, named: bool, pretty: bool) -> Vec<Parameter> {
    let name = named.then_some(NAME);
    let namespace = resource.namespaced.then_some(NAMESPACE);
    name.into_iter().chain(namespace).chain(pretty.then_some(PRETTY)).collect()
}

fn subject(resource: &Resource, rest: &str) -> String {
    format!("{}{}{rest}", if resource.namespaced { "Namespaced" } else { "" }, resource.kind)
}

fn main(resource: &Resource, all: &mut Vec<Endpoint>) {
    let has = |verb: &str| resource.has_verb(verb);
    let collection = object_path(resource).trim_end_matches("/{name}").to_owned();
    let list = || {
        resource.list_ty.filter(|_| has("list")).map(|ty| Operation {
            parameters: sorted(SELECT.into_iter().chain(WATCH)),
            answer: Answer::List(ty),
            ..read("list", "list", ty)
        })
    };
    let mut operations: Vec<Operation> = list().into_iter().collect();
    operations.extend(has("create").then(|| create(resource.ty)));
    if has("deletecollection") {
        operations.push(Operation {
            action: "deletecollection",
            suffix: "Collection",
            parameters: sorted(SELECT.into_iter().chain(DELETE)),
            codes: &[200],
            ..delete(resource, "deletecollection")
        });
    }
    let gvk = resource.gvk();
    push(
        all,
        Endpoint {
            path: collection,
            parameters: shared(resource, false, true),
            gvk,
            subject: subject(resource, ""),
            operations,
        },
    );
    if resource.namespaced
        && let Some(list) = list()
    {
        let path = format!("{}/{}", root(resource), resource.plural);
        let subject = format!("{}ForAllNamespaces", resource.kind);
        push(all, Endpoint { path, parameters: vec![PRETTY], gvk, subject, operations: vec![list] });
    }
    let mut operations = Vec::new();
    operations.extend(has("get").then(|| read("get", "read", resource.ty)));
    operations.extend(has("update").then(|| update(resource.ty)));
    operations.extend(has("delete").then(|| delete(resource, "delete")));
    operations.extend(has("patch").then(|| patch(resource.ty)));
    push(
        all,
        Endpoint {
            path: object_path(resource),
            parameters: shared(resource, true, true),
            gvk,
            subject: subject(resource, ""),
            operations,
        },
    );
}

fn push(all: &mut Vec<Endpoint>, endpoint: Endpoint) {
    if !endpoint.operations.is_empty() {
        all.push(endpoint);
    }
}

fn subresource(resource: &'static Resource, sub: &'static Subresource) -> Option<Endpoint> {
    let title = match sub.name {
        "ephemeralcontainers" => "Ephemeralcontainers".to_owned(),
        "portforward" => "Portforward".to_owned(),
        name => capital(name),
    };
    let mut endpoint = Endpoint {
        path: format!("{}/{}", object_path(resource), sub.name),
        parameters: shared(resource, true, true),
        gvk: sub.gvk,
        subject: subject(resource, &title),
        operations: Vec::new(),
    };
    let has = |verb: &str| sub.verbs.contains(&verb);
    match (sub.name, sub.ty) {
        ("log", _) => {
            endpoint.parameters = shared(resource, true, false).into_iter().chain(LOG).collect();
            endpoint.operations.push(Operation { answer: Answer::Text, ..read("get", "read", resource.ty) });
        }
        ("attach" | "exec" | "portforward" | "proxy", _) => {
            endpoint.parameters = shared(resource, true, false);
            endpoint.parameters.extend(match sub.name {
                "exec" => STREAMS.to_vec(),
                "attach" => STREAMS.iter().filter(|p| p.0 != "command").copied().collect(),
                "portforward" => vec![("ports", "integer", false)],
                _ => vec![("path", "string", false)],
            });
            let methods: &[&'static str] = match sub.name {
                "proxy" => &["get", "put", "post", "delete", "options", "head", "patch"],
                _ => &["get", "post"],
            };
            endpoint.operations.extend(methods.iter().map(|method| Operation {
                method,
                action: "connect",
                answer: Answer::Any,
                verb: "connect",
                ..read("get", "connect", resource.ty)
            }));
        }
        (_, Some(ty)) => {
            endpoint.operations.extend(has("get").then(|| read("get", "read", ty)));
            endpoint.operations.extend(has("create").then(|| create(ty)));
            endpoint.operations.extend(has("update").then(|| update(ty)));
            endpoint.operations.extend(has("patch").then(|| patch(ty)));
        }
        _ => return None,
    }
    Some(endpoint)
}

/// Capitalizes the first letter.
pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn sorted(parameters: impl Iterator<Item = Parameter>) -> Vec<Parameter> {
    let mut parameters: Vec<Parameter> = parameters.collect();
    parameters.sort_unstable();
    parameters
}

fn read(action: &'static str, verb: &'static str, ty: TypeRef) -> Operation {
    let answer = Answer::Object(ty);
    Operation {
        method: "get",
        action,
        verb,
        suffix: "",
        parameters: Vec::new(),
        body: Body::None,
        answer,
        codes: &[200],
    }
}

fn create(ty: TypeRef) -> Operation {
    let (parameters, body, codes) = (WRITE.to_vec(), Body::Object(ty), &[200, 201, 202]);
    Operation { method: "post", parameters, body, codes, ..read("post", "create", ty) }
}

fn update(ty: TypeRef) -> Operation {
    let (parameters, body, codes) = (WRITE.to_vec(), Body::Object(ty), &[200, 201]);
    Operation { method: "put", parameters, body, codes, ..read("put", "replace", ty) }
}

fn patch(ty: TypeRef) -> Operation {
    let parameters = WRITE.into_iter().chain([FORCE]).collect();
    Operation { method: "patch", parameters, body: Body::Patch, codes: &[200, 201], ..read("patch", "patch", ty) }
}

fn delete(resource: &Resource, action: &'static str) -> Operation {
    let status = type_named("meta/v1.Status").filter(|_| !(resource.returns_object && action == "delete"));
    let codes = if action == "delete" { &[200, 202][..] } else { &[200] };
    let ty = status.unwrap_or(resource.ty);
    Operation {
        method: "delete",
        parameters: DELETE.to_vec(),
        body: Body::DeleteOptions,
        codes,
        ..read(action, "delete", ty)
    }
}

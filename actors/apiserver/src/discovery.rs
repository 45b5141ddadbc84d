//! Discovery documents, derived from the resource table: `/api`, `/apis`, group and version lists in their legacy form, and the
//! aggregated form (`apidiscovery.k8s.io/v2`, KEP-3352).

use bytes::Bytes;
use oarlock_schema::resources::GROUPS;
use oarlock_schema::{RESOURCES, Resource};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256, Sha512};

/// A document that does not change while the server runs, with its entity tag.
#[derive(Clone, Debug)]
pub struct Document {
    /// JSON text.
    pub body: Bytes,
    /// Quoted SHA-512 of the body, in upper-case hex as upstream writes it.
    pub etag: String,
}

impl Document {
    /// Renders a document.
    #[must_use]
    pub fn new(json: &Json) -> Self {
        let body = Bytes::from(json.to_string());
        let etag = Sha512::digest(&body).iter().fold(String::from("\""), |mut text, byte| {
            use std::fmt::Write as _;
            let _ = write!(text, "{byte:02X}");
            text
        }) + "\"";
        Self { body, etag }
    }
}

/// Builds the `APIVersions` of `/api`.
#[must_use]
pub fn core_versions(server_address: &str) -> Json {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    })
}

/// Builds the `APIGroupList` of `/apis`.
#[must_use]
pub fn group_list() -> Json {
    let groups: Vec<Json> = named_groups().map(|(group, versions)| group_body(group, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Builds the `APIGroup` of `/apis/<group>`; `None` for a group that is not served.
#[must_use]
pub fn group(name: &str) -> Option<Json> {
    let (group, versions) = named_groups().find(|(group, _)| *group == name)?;
    let mut body = json!({"kind": "APIGroup", "apiVersion": "v1"});
    merge(&mut body, group_body(group, versions));
    Some(body)
}

/// Builds the `APIResourceList` of one group and version; `None` when the version is not served.
#[must_use]
pub fn resource_list(group: &str, version: &str) -> Option<Json> {
    let rows: Vec<&Resource> = of_version(group, version).collect();
    let first = rows.first()?;
    let mut resources: Vec<Json> = rows.iter().flat_map(|r| legacy_rows(r)).collect();
    resources.sort_by(|a, b| text(a, "name").cmp(text(b, "name")));
    let mut body = json!({"kind": "APIResourceList", "groupVersion": first.group_version(), "resources": resources});
    if !group.is_empty() {
        // Upstream writes the version of the list itself in every group but the core group.
        merge(&mut body, json!({"apiVersion": "v1"}));
    }
    Some(body)
}

/// Builds the `APIGroupDiscoveryList` of `/api` (`core`) or `/apis`.
#[must_use]
pub fn aggregated(core: bool) -> Json {
    let items: Vec<Json> = GROUPS
        .iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Json> = versions
                .iter()
                .map(|version| {
                    let resources: Vec<Json> = of_version(group, version).map(aggregated_row).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn named_groups() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    GROUPS.iter().filter(|(group, _)| !group.is_empty()).map(|(group, versions)| (*group, *versions))
}

fn of_version<'a>(group: &'a str, version: &'a str) -> impl Iterator<Item = &'static Resource> + use<'a> {
    RESOURCES.iter().filter(move |r| r.group == group && r.version == version)
}

fn group_body(group: &str, versions: &[&str]) -> Json {
    let versions: Vec<Json> =
        versions.iter().map(|v| json!({"groupVersion": format!("{group}/{v}"), "version": v})).collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

fn legacy_rows(r: &Resource) -> Vec<Json> {
    let mut row = json!({"name": r.plural, "singularName": r.singular, "namespaced": r.namespaced, "kind": r.kind, "verbs": r.verbs});
    add_names(&mut row, r);
    if let Some(hash) = storage_version_hash(r) {
        merge(&mut row, json!({"storageVersionHash": hash}));
    }
    let mut rows = vec![row];
    for sub in r.subresources {
        let mut row = json!({"name": format!("{}/{}", r.plural, sub.name), "singularName": "", "namespaced": r.namespaced, "kind": sub.gvk.kind, "verbs": sub.verbs});
        if (sub.gvk.group, sub.gvk.version) != (r.group, r.version) && !sub.gvk.version.is_empty() {
            merge(&mut row, json!({"group": sub.gvk.group, "version": sub.gvk.version}));
        }
        rows.push(row);
    }
    rows
}

/// Returns the first eight bytes of the SHA-256 of the stored group, version and kind. Clients see from it when the stored form changes.
fn storage_version_hash(r: &Resource) -> Option<String> {
    use base64::Engine as _;
    let stored = format!("{}/{}/{}", storage_group(r), r.storage?.version, r.kind);
    let digest = Sha256::digest(stored.as_bytes());
    Some(base64::engine::general_purpose::STANDARD.encode(digest.get(..8)?))
}

/// Returns the group under which a resource is stored: Events of events.k8s.io are stored in the core group's form.
fn storage_group(r: &Resource) -> &'static str {
    if r.group == "events.k8s.io" { "" } else { r.group }
}

fn aggregated_row(r: &Resource) -> Json {
    let mut row = json!({
        "resource": r.plural,
        "responseKind": {"group": "", "version": "", "kind": r.kind},
        "scope": if r.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": r.singular,
        "verbs": r.verbs,
    });
    add_names(&mut row, r);
    let subresources: Vec<Json> = r
        .subresources
        .iter()
        .map(|s| {
            let foreign = (s.gvk.group, s.gvk.version) != (r.group, r.version);
            let (group, version) = if foreign { (s.gvk.group, s.gvk.version) } else { ("", "") };
            json!({"subresource": s.name, "responseKind": {"group": group, "version": version, "kind": s.gvk.kind}, "verbs": s.verbs})
        })
        .collect();
    if !subresources.is_empty() {
        merge(&mut row, json!({"subresources": subresources}));
    }
    row
}

fn add_names(row: &mut Json, r: &Resource) {
    if !r.short_names.is_empty() {
        merge(row, json!({"shortNames": r.short_names}));
    }
    if !r.categories.is_empty() {
        merge(row, json!({"categories": r.categories}));
    }
}

fn merge(into: &mut Json, more: Json) {
    if let (Json::Object(into), Json::Object(more)) = (into, more) {
        into.extend(more);
    }
}

fn text<'a>(row: &'a Json, field: &str) -> &'a str {
    row.get(field).and_then(Json::as_str).unwrap_or("")
}

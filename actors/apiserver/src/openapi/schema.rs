//! Encodes types as OpenAPI schemas.

use std::collections::BTreeMap;

use oarlock_schema::resources::GROUPS;
use oarlock_schema::{FieldDef, ListType, Presence, Shape, TypeDef, TypeRef};
use serde_json::{Map, Value as Json, json};

use super::dialect::Dialect;

/// A schema that documents refer to.
#[derive(Clone, Copy)]
pub(super) enum Named {
    /// A struct of the schema facts.
    Type(TypeRef),
    /// A type with a JSON form of its own.
    Special(&'static str),
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const DURATION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Duration";
const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
/// Schema name of the body of a patch.
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const JSON: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
const OR_BOOL: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool";
const OR_ARRAY: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray";
const OR_STRINGS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray";

/// Defaults that upstream documents (`+default` markers); far fewer than it applies.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("core/v1.AzureDiskVolumeSource", "cachingMode", "ReadWrite"),
    ("core/v1.AzureDiskVolumeSource", "fsType", "ext4"),
    ("core/v1.AzureDiskVolumeSource", "kind", "Shared"),
    ("core/v1.ContainerPort", "protocol", "TCP"),
    ("core/v1.ISCSIPersistentVolumeSource", "iscsiInterface", "default"),
    ("core/v1.ISCSIVolumeSource", "iscsiInterface", "default"),
    ("core/v1.RBDPersistentVolumeSource", "keyring", "/etc/ceph/keyring"),
    ("core/v1.RBDPersistentVolumeSource", "pool", "rbd"),
    ("core/v1.RBDPersistentVolumeSource", "user", "admin"),
    ("core/v1.RBDVolumeSource", "keyring", "/etc/ceph/keyring"),
    ("core/v1.RBDVolumeSource", "pool", "rbd"),
    ("core/v1.RBDVolumeSource", "user", "admin"),
    ("core/v1.ScaleIOPersistentVolumeSource", "fsType", "xfs"),
    ("core/v1.ScaleIOPersistentVolumeSource", "storageMode", "ThinProvisioned"),
    ("core/v1.ScaleIOVolumeSource", "fsType", "xfs"),
    ("core/v1.ScaleIOVolumeSource", "storageMode", "ThinProvisioned"),
    ("core/v1.ServicePort", "protocol", "TCP"),
    ("resource/v1.DeviceToleration", "operator", "Equal"),
];

/// Fields whose Go zero value is documented as their default although the encoder leaves it out.
const ZERO_DEFAULTS: &[(&str, &str)] = &[
    ("autoscaling/v1.ScaleSpec", "replicas"),
    ("core/v1.AzureDiskVolumeSource", "readOnly"),
    ("core/v1.ConfigMapEnvSource", "name"),
    ("core/v1.ConfigMapKeySelector", "name"),
    ("core/v1.ConfigMapProjection", "name"),
    ("core/v1.ConfigMapVolumeSource", "name"),
    ("core/v1.FileKeySelector", "optional"),
    ("core/v1.GRPCAction", "service"),
    ("core/v1.LocalObjectReference", "name"),
    ("core/v1.ReplicationControllerSpec", "minReadySeconds"),
    ("core/v1.SecretEnvSource", "name"),
    ("core/v1.SecretKeySelector", "name"),
    ("core/v1.SecretProjection", "name"),
];

/// A union: type, discriminating field, and the value that stands for each member.
type Union = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const UNIONS: &[Union] = &[
    ("core/v1.AppArmorProfile", "type", &[("localhostProfile", "LocalhostProfile")]),
    ("core/v1.SeccompProfile", "type", &[("localhostProfile", "LocalhostProfile")]),
    ("flowcontrol/v1.LimitResponse", "type", &[("queuing", "Queuing")]),
    ("flowcontrol/v1.PriorityLevelConfigurationSpec", "type", &[("exempt", "Exempt"), ("limited", "Limited")]),
    ("flowcontrol/v1.Subject", "kind", &[("group", "Group"), ("serviceAccount", "ServiceAccount"), ("user", "User")]),
];

/// Adds a type and all types that it refers to.
pub(super) fn reach(ty: TypeRef, into: &mut BTreeMap<&'static str, Named>) {
    if into.insert(ty.openapi, Named::Type(ty)).is_some() {
        return;
    }
    for field in ty.fields {
        match leaf(&field.shape) {
            Shape::Struct(inner) => reach(inner, into),
            shape => special(shape).into_iter().for_each(|name| {
                into.insert(name, Named::Special(name));
            }),
        }
    }
}

fn leaf(shape: &Shape) -> &Shape {
    match shape {
        Shape::List(inner) | Shape::Map(inner) => leaf(inner),
        other => other,
    }
}

fn special(shape: &Shape) -> Option<&'static str> {
    Some(match shape {
        Shape::Quantity => QUANTITY,
        Shape::IntOrString => INT_OR_STRING,
        Shape::Time => TIME,
        Shape::MicroTime => MICRO_TIME,
        Shape::Duration => DURATION,
        Shape::RawExtension => RAW,
        Shape::FieldsV1 => FIELDS,
        Shape::Json => JSON,
        Shape::SchemaOrBool => OR_BOOL,
        Shape::SchemaOrArray => OR_ARRAY,
        Shape::SchemaOrStringArray => OR_STRINGS,
        _ => return None,
    })
}

/// Builds the schema of a named type.
pub(super) fn definition(named: Named, dialect: Dialect) -> Json {
    match named {
        Named::Type(ty) => structure(ty, dialect),
        Named::Special(name) => match (name, dialect) {
            (TIME | MICRO_TIME, _) => json!({"type": "string", "format": "date-time"}),
            (DURATION, _) | (QUANTITY, Dialect::V2) => json!({"type": "string"}),
            (QUANTITY, Dialect::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            (INT_OR_STRING, Dialect::V2) => json!({"type": "string", "format": "int-or-string"}),
            (INT_OR_STRING, Dialect::V3) => {
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
            }
            (RAW | FIELDS | PATCH, _) => json!({"type": "object"}),
            _ => json!({}),
        },
    }
}

fn structure(ty: TypeRef, dialect: Dialect) -> Json {
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    let required: Vec<&str> = ty.fields.iter().filter(|f| f.required).map(|f| f.name).collect();
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
    let properties: Map<String, Json> =
        ty.fields.iter().map(|field| (field.name.to_owned(), property(ty, field, dialect))).collect();
    if !properties.is_empty() {
        schema.insert("properties".into(), properties.into());
    }
    if ty.atomic {
        schema.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
    if let Some((_, discriminator, members)) = UNIONS.iter().find(|(name, _, _)| *name == ty.name) {
        let members: Map<String, Json> = members.iter().map(|(f, v)| ((*f).to_owned(), Json::from(*v))).collect();
        let union = json!([{"discriminator": discriminator, "fields-to-discriminateBy": members}]);
        schema.insert("x-kubernetes-unions".into(), union);
    }
    if let Some(kinds) = kinds(ty) {
        schema.insert("x-kubernetes-group-version-kind".into(), kinds);
    }
    schema.into()
}

/// Returns the kinds under which a type is served. Options and watch events belong to every group.
fn kinds(ty: &TypeDef) -> Option<Json> {
    let kind = ty.short_name();
    if ty.openapi == format!("{META}.DeleteOptions") || ty.openapi == format!("{META}.WatchEvent") {
        let all = GROUPS.iter().flat_map(|(group, versions)| versions.iter().map(move |v| (*group, *v)));
        return Some(all.map(|(group, version)| json!({"group": group, "kind": kind, "version": version})).collect());
    }
    let gvk = ty.gvk?;
    Some(json!([{"group": gvk.group, "kind": gvk.kind, "version": gvk.version}]))
}

fn property(ty: TypeRef, field: &FieldDef, dialect: Dialect) -> Json {
    let default = (dialect == Dialect::V3).then(|| default(ty, field)).flatten();
    let mut schema = Map::new();
    let rest = extensions(ty, field);
    match &field.shape {
        Shape::List(inner) => {
            schema.insert("type".into(), "array".into());
            schema.insert("items".into(), item(inner, field, dialect));
        }
        Shape::Map(inner) => {
            schema.insert("type".into(), "object".into());
            schema.insert("additionalProperties".into(), item(inner, field, dialect));
        }
        shape => {
            let siblings = default.is_some() || !rest.is_empty();
            scalar(shape, siblings, dialect, &mut schema);
            allowed(field, &mut schema);
        }
    }
    if let Some(default) = default {
        schema.insert("default".into(), default);
    }
    schema.extend(rest);
    schema.into()
}

/// Writes a reference or a type. OpenAPI 3.0 ignores siblings of a reference, so the reference is wrapped in that version.
fn scalar(shape: &Shape, siblings: bool, dialect: Dialect, into: &mut Map<String, Json>) {
    let reference = match shape {
        Shape::Struct(inner) => Some(inner.openapi),
        other => special(other),
    };
    if let Some(name) = reference {
        let pointer = dialect.pointer(name);
        if siblings && dialect == Dialect::V3 {
            into.insert("allOf".into(), json!([{"$ref": pointer}]));
        } else {
            into.insert("$ref".into(), pointer.into());
        }
        return;
    }
    let (name, format) = match shape {
        Shape::Bool => ("boolean", ""),
        Shape::Int32 => ("integer", "int32"),
        Shape::Int64 => ("integer", "int64"),
        Shape::Float64 => ("number", "double"),
        Shape::Bytes => ("string", "byte"),
        _ => ("string", ""),
    };
    into.insert("type".into(), name.into());
    if !format.is_empty() {
        into.insert("format".into(), format.into());
    }
}

/// Builds the schema of the items of a list or map.
fn item(shape: &Shape, field: &FieldDef, dialect: Dialect) -> Json {
    let mut schema = Map::new();
    match shape {
        Shape::List(inner) => {
            schema.insert("type".into(), "array".into());
            schema.insert("items".into(), item(inner, field, dialect));
        }
        Shape::Map(inner) => {
            schema.insert("type".into(), "object".into());
            schema.insert("additionalProperties".into(), item(inner, field, dialect));
        }
        shape => {
            let default = if dialect == Dialect::V3 { zero(shape) } else { None };
            scalar(shape, default.is_some(), dialect, &mut schema);
            allowed(field, &mut schema);
            schema.extend(default.map(|zero| ("default".to_owned(), zero)));
        }
    }
    schema.into()
}

fn allowed(field: &FieldDef, into: &mut Map<String, Json>) {
    if !field.allowed.is_empty() {
        let mut values = field.allowed.to_vec();
        values.sort_unstable();
        into.insert("enum".into(), values.into());
    }
}

/// Returns the documented default: upstream's, or Go's zero value if the encoder always writes the field.
fn default(ty: TypeRef, field: &FieldDef) -> Option<Json> {
    if let Some((_, _, text)) = DEFAULTS.iter().find(|(name, at, _)| (*name, *at) == (ty.name, field.name)) {
        return Some(Json::from(*text));
    }
    // This field is a Go pointer, but with a documented default for nil.
    if (ty.name, field.name) == ("core/v1.ReplicationControllerSpec", "replicas") {
        return Some(1.into());
    }
    if ZERO_DEFAULTS.contains(&(ty.name, field.name)) {
        return zero(&field.shape);
    }
    if field.pointer || (field.presence != Presence::Always && !matches!(field.shape, Shape::Struct(_))) {
        return None;
    }
    zero(&field.shape)
}

fn zero(shape: &Shape) -> Option<Json> {
    Some(match shape {
        Shape::Bool => false.into(),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => 0.into(),
        Shape::Str => "".into(),
        Shape::Struct(_) => json!({}),
        _ => return None,
    })
}

/// Whether a field of bytes is marked as an atomic list, which bytes are in Go. Upstream marks exactly one.
fn is_atomic_bytes(ty: TypeRef, field: &FieldDef) -> bool {
    (ty.name, field.name) == ("apiregistration/v1.APIServiceSpec", "caBundle")
}

fn extensions(ty: TypeRef, field: &FieldDef) -> Map<String, Json> {
    let mut out = Map::new();
    let mut put = |name: &str, value: Json| {
        out.insert(format!("x-kubernetes-{name}"), value);
    };
    // The items of lists of objects have no list type: such lists are never applied.
    let listed = field.name == "items" && ty.field("metadata").is_some();
    if (matches!(field.shape, Shape::List(_)) && !listed) || is_atomic_bytes(ty, field) {
        let name = match field.list {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map => "map",
        };
        put("list-type", name.into());
        if !field.keys.is_empty() {
            put("list-map-keys", field.keys.into());
        }
    }
    if field.granular {
        put("map-type", "granular".into());
    }
    // Structs that are atomic everywhere carry the marker in their own schema.
    if field.atomic && field.shape.element_type().is_none_or(|ty| !ty.atomic) {
        put("map-type", "atomic".into());
    }
    if let Some(key) = field.merge_key {
        put("patch-merge-key", key.into());
    }
    let strategy =
        [(field.patch.merge, "merge"), (field.patch.replace, "replace"), (field.patch.retain_keys, "retainKeys")];
    let strategy: Vec<&str> = strategy.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect();
    if !strategy.is_empty() {
        put("patch-strategy", strategy.join(",").into());
    }
    out
}

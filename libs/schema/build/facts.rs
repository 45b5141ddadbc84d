//! The format of the data file, and the Rust statics generated from the file.

use super::*;

#[derive(serde::Deserialize)]
pub(crate) struct Facts {
    #[serde(default)]
    pub(crate) kubernetes: String,
    pub(crate) types: Vec<Type>,
    pub(crate) groups: Vec<Group>,
    pub(crate) resources: Vec<ResourceRow>,
    #[serde(default)]
    pub(crate) gates: Vec<GateRow>,
}

impl Facts {
    /// Adds the types and resources of another file.
    pub(crate) fn extend(&mut self, more: Self) {
        self.types.extend(more.types);
        self.groups.extend(more.groups);
        self.resources.extend(more.resources);
        self.gates.extend(more.gates);
    }
}

#[derive(serde::Deserialize)]
pub(crate) struct GateRow {
    pub(crate) name: String,
    pub(crate) default: bool,
    #[serde(default)]
    pub(crate) locked: bool,
    pub(crate) stage: String,
}

#[derive(serde::Deserialize)]
pub(crate) struct Group {
    pub(crate) group: String,
    pub(crate) versions: Vec<String>,
}

#[derive(serde::Deserialize)]
pub(crate) struct GvkRow {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

#[derive(serde::Deserialize)]
pub(crate) struct Type {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) openapi: String,
    #[serde(default)]
    pub(crate) gvk: Vec<GvkRow>,
    #[serde(default)]
    pub(crate) fields: Vec<Field>,
    #[serde(default, rename = "struct")]
    pub(crate) structure: String,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
pub(crate) enum Via {
    One(u32),
    Many(Vec<u32>),
}

#[derive(serde::Deserialize)]
pub(crate) struct Field {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) number: u32,
    pub(crate) via: Option<Via>,
    #[serde(rename = "type")]
    pub(crate) ty: String,
    pub(crate) presence: String,
    #[serde(default)]
    pub(crate) omitzero: bool,
    #[serde(default)]
    pub(crate) pointer: bool,
    #[serde(default)]
    pub(crate) wrapped: bool,
    #[serde(default)]
    pub(crate) list: String,
    #[serde(default)]
    pub(crate) keys: Vec<String>,
    #[serde(default)]
    pub(crate) map: String,
    #[serde(default, rename = "struct")]
    pub(crate) structure: String,
    #[serde(default)]
    pub(crate) patch: String,
    #[serde(rename = "mergeKey")]
    pub(crate) merge_key: Option<String>,
    pub(crate) default: Option<serde_json::Value>,
    #[serde(default, rename = "enum")]
    pub(crate) allowed: Vec<String>,
    #[serde(default)]
    pub(crate) required: bool,
    pub(crate) gate: Option<String>,
    #[serde(default)]
    pub(crate) deprecated: bool,
}

#[derive(serde::Deserialize)]
pub(crate) struct ResourceRow {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    #[serde(default)]
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    #[serde(default, rename = "shortNames")]
    pub(crate) short_names: Vec<String>,
    #[serde(default)]
    pub(crate) categories: Vec<String>,
    #[serde(default)]
    pub(crate) verbs: Vec<String>,
    #[serde(rename = "type")]
    pub(crate) ty: String,
    #[serde(default, rename = "listType")]
    pub(crate) list_type: String,
    #[serde(default)]
    pub(crate) subresources: Vec<SubresourceRow>,
    pub(crate) storage: Option<StorageRow>,
    #[serde(default)]
    pub(crate) selectable: Vec<String>,
    #[serde(default)]
    pub(crate) columns: Vec<ColumnRow>,
    #[serde(default)]
    pub(crate) reset: BTreeMap<String, Vec<String>>,
    #[serde(default, rename = "createOnUpdate")]
    pub(crate) create_on_update: bool,
    #[serde(default, rename = "unconditionalUpdate")]
    pub(crate) unconditional_update: bool,
    #[serde(default, rename = "returnsObject")]
    pub(crate) returns_object: bool,
    #[serde(default)]
    pub(crate) graceful: bool,
    #[serde(default)]
    pub(crate) generation: bool,
}

#[derive(serde::Deserialize)]
pub(crate) struct SubresourceRow {
    pub(crate) name: String,
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) group: String,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default, rename = "type")]
    pub(crate) ty: String,
    #[serde(default)]
    pub(crate) verbs: Vec<String>,
}

#[derive(serde::Deserialize)]
pub(crate) struct StorageRow {
    pub(crate) prefix: String,
    pub(crate) version: String,
    pub(crate) encoding: String,
}

#[derive(serde::Deserialize)]
pub(crate) struct ColumnRow {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) ty: String,
    #[serde(default)]
    pub(crate) format: String,
    #[serde(default)]
    pub(crate) priority: i32,
}

/// Returns the name of a type's static: `core/v1.Pod` → `CORE_V1_POD`.
pub(crate) fn ident(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

impl Field {
    /// Whether Go always writes the field: `omitempty` never leaves out struct values. The rule is in `canonical::always`; the build script turns the rule into a table.
    pub(crate) fn always(&self) -> bool {
        let go_struct = !self.ty.starts_with("[]")
            && !self.ty.starts_with("map[")
            && !matches!(self.ty.as_str(), "bool" | "int32" | "int64" | "float64" | "string" | "bytes");
        match self.presence() {
            "Always" => true,
            "OmitEmpty" => !self.pointer && go_struct,
            _ => false,
        }
    }

    fn presence(&self) -> &'static str {
        match (self.presence.as_str(), self.omitzero) {
            (_, true) | ("omitzero", _) => "OmitZero",
            ("omitempty", _) => "OmitEmpty",
            _ => "Always",
        }
    }
}

/// Returns the Rust expression of a shape.
pub(crate) fn shape(ty: &str) -> String {
    if let Some(inner) = ty.strip_prefix("[]") {
        return format!("Shape::List(&{})", shape(inner));
    }
    if let Some(inner) = ty.strip_prefix("map[string]") {
        return format!("Shape::Map(&{})", shape(inner));
    }
    match ty {
        "bool" => "Shape::Bool".into(),
        "int32" => "Shape::Int32".into(),
        "int64" => "Shape::Int64".into(),
        "float64" => "Shape::Float64".into(),
        "string" => "Shape::Str".into(),
        "bytes" => "Shape::Bytes".into(),
        "Quantity" | "IntOrString" | "Time" | "MicroTime" | "Duration" | "RawExtension" | "FieldsV1" => {
            format!("Shape::{ty}")
        }
        "JSON" => "Shape::Json".into(),
        "JSONSchemaPropsOrBool" => "Shape::SchemaOrBool".into(),
        "JSONSchemaPropsOrArray" => "Shape::SchemaOrArray".into(),
        "JSONSchemaPropsOrStringArray" => "Shape::SchemaOrStringArray".into(),
        name => format!("Shape::Struct(&{})", ident(name)),
    }
}

/// Statics of all types and resources.
pub(crate) fn write(facts: &Facts) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    writeln!(out, "use crate::gates::{{Gate, Stage}};")?;
    writeln!(out, "use crate::types::{{FieldDef, ListType, PatchStrategy, Presence, Shape, TypeDef}};")?;
    writeln!(
        out,
        "/// Version of Kubernetes whose facts these are.\npub const KUBERNETES: &str = {:?};",
        facts.kubernetes
    )?;
    let mut types: Vec<&Type> = facts.types.iter().collect();
    types.sort_by(|a, b| a.name.cmp(&b.name));
    for ty in &types {
        write_type(&mut out, ty)?;
    }
    writeln!(out, "/// All built-in types, sorted by name.\npub static TYPES: &[TypeRef] = &[")?;
    for ty in &types {
        writeln!(out, "&{},", ident(&ty.name))?;
    }
    writeln!(out, "];")?;
    writeln!(
        out,
        "/// Groups with their versions, in the order of `/apis`; core first.\npub static GROUPS: &[(&str, &[&str])] = &["
    )?;
    for group in &facts.groups {
        writeln!(out, "({:?}, &{:?}),", group.group, group.versions)?;
    }
    writeln!(out, "];")?;
    writeln!(out, "/// All served resources, in discovery order.\npub static RESOURCES: &[Resource] = &[")?;
    let known: HashMap<&str, ()> = types.iter().map(|t| (t.name.as_str(), ())).collect();
    for row in &facts.resources {
        write_resource(&mut out, row, &known)?;
    }
    writeln!(out, "];")?;
    let mut gates: Vec<&GateRow> = facts.gates.iter().collect();
    gates.sort_by(|a, b| a.name.cmp(&b.name));
    writeln!(out, "/// All feature gates, sorted by name.\npub static GATES: &[Gate] = &[")?;
    for GateRow { name, default, locked, stage } in gates {
        let stage = match stage.as_str() {
            "ALPHA" => "Alpha",
            "BETA" => "Beta",
            "DEPRECATED" => "Deprecated",
            _ => "Ga",
        };
        writeln!(out, "Gate {{ name: {name:?}, default: {default}, locked: {locked}, stage: Stage::{stage} }},")?;
    }
    writeln!(out, "];")?;
    Ok(out)
}

fn write_type(out: &mut String, ty: &Type) -> std::fmt::Result {
    let gvk = ty.gvk.first().map_or("None".to_owned(), |g| {
        format!("Some(Gvk {{ group: {:?}, version: {:?}, kind: {:?} }})", g.group, g.version, g.kind)
    });
    let mut by_name: Vec<usize> = (0..ty.fields.len()).collect();
    by_name.sort_by(|a, b| ty.fields[*a].name.cmp(&ty.fields[*b].name));
    let by_hash = by_hash(&ty.fields);
    let always: Vec<usize> = (0..ty.fields.len()).filter(|i| ty.fields[*i].always()).collect();
    writeln!(
        out,
        "/// `{}`\npub static {}: TypeDef = TypeDef {{ name: {:?}, openapi: {:?}, gvk: {gvk}, atomic: {}, by_name: &{by_name:?}, by_hash: &{by_hash:?}, always: &{always:?}, fields: &[",
        ty.name,
        ident(&ty.name),
        ty.name,
        ty.openapi,
        ty.structure == "atomic"
    )?;
    for field in &ty.fields {
        write_field(out, field)?;
    }
    writeln!(out, "] }};")
}

/// Returns the hash table of fields by name (`TypeDef::by_hash`), at most half full, with linear probing.
fn by_hash(fields: &[Field]) -> Vec<u16> {
    const EMPTY: u16 = u16::MAX;
    let mut table = vec![EMPTY; (2 * fields.len()).next_power_of_two()];
    for (index, field) in (0..).zip(fields) {
        let mut place = name_hash::hash(&field.name) % table.len();
        while table[place] != EMPTY {
            place = (place + 1) % table.len();
        }
        table[place] = index;
    }
    table
}

fn write_field(out: &mut String, f: &Field) -> std::fmt::Result {
    let via: &[u32] = match &f.via {
        None => &[],
        Some(Via::One(n)) => std::slice::from_ref(n),
        Some(Via::Many(many)) => many,
    };
    let list = match f.list.as_str() {
        "map" => "Map",
        "set" => "Set",
        _ => "Atomic",
    };
    let atomic = f.map == "atomic" || f.structure == "atomic";
    let granular = f.map == "granular" || f.structure == "granular";
    let patch = |word: &str| f.patch.split(',').any(|p| p.trim() == word);
    let default = f.default.as_ref().map(std::string::ToString::to_string);
    writeln!(
        out,
        "FieldDef {{ name: {:?}, prefix: {:?}, number: {}, via: &{via:?}, shape: {}, pointer: {}, presence: Presence::{}, wrapped: {}, list: ListType::{list}, keys: &{:?}, atomic: {atomic}, granular: {granular}, patch: PatchStrategy {{ merge: {}, replace: {}, retain_keys: {} }}, merge_key: {:?}, default: {default:?}, allowed: &{:?}, required: {}, gate: {:?}, deprecated: {} }},",
        f.name,
        format!("\"{}\":", f.name),
        f.number,
        shape(&f.ty),
        f.pointer,
        f.presence(),
        f.wrapped,
        f.keys,
        patch("merge"),
        patch("replace"),
        patch("retainKeys"),
        f.merge_key,
        f.allowed,
        f.required,
        f.gate,
        f.deprecated
    )
}

fn write_resource(out: &mut String, r: &ResourceRow, known: &HashMap<&str, ()>) -> std::fmt::Result {
    let type_ref =
        |name: &str| if known.contains_key(name) { format!("Some(&{})", ident(name)) } else { "None".to_owned() };
    let mut subresources = String::new();
    for s in &r.subresources {
        write!(
            subresources,
            "Subresource {{ name: {:?}, gvk: Gvk {{ group: {:?}, version: {:?}, kind: {:?} }}, ty: {}, verbs: &{:?} }},",
            s.name,
            s.group,
            s.version,
            s.kind,
            type_ref(&s.ty),
            s.verbs
        )?;
    }
    let storage = r.storage.as_ref().map_or("None".to_owned(), |s| {
        format!(
            "Some(Storage {{ prefix: \"{}/\", version: {:?}, json: {} }})",
            s.prefix,
            s.version,
            s.encoding == "json"
        )
    });
    let columns: String = r
        .columns
        .iter()
        .map(|c| {
            format!(
                "Column {{ name: {:?}, ty: {:?}, format: {:?}, priority: {} }},",
                c.name, c.ty, c.format, c.priority
            )
        })
        .collect();
    let reset: String =
        r.reset.iter().map(|(endpoint, paths)| format!("({endpoint:?}, &{paths:?} as &[&str]),")).collect();
    writeln!(
        out,
        "Resource {{ group: {:?}, version: {:?}, plural: {:?}, singular: {:?}, kind: {:?}, namespaced: {}, short_names: &{:?}, categories: &{:?}, verbs: &{:?}, ty: &{}, list_ty: {}, subresources: &[{subresources}], storage: {storage}, selectable: &{:?}, columns: &[{columns}], reset: &[{reset}], create_on_update: {}, unconditional_update: {}, returns_object: {}, graceful: {}, generation: {} }},",
        r.group,
        r.version,
        r.resource,
        r.singular,
        r.kind,
        r.namespaced,
        r.short_names,
        r.categories,
        r.verbs,
        ident(&r.ty),
        type_ref(&r.list_type),
        r.selectable,
        r.create_on_update,
        r.unconditional_update,
        r.returns_object,
        r.graceful,
        r.generation
    )
}

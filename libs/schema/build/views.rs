//! Generates typed views: per schema type a reading view `X` and a changing view `XMut`.

use super::*;
use facts::ident;

/// Returns module and name of a type's view: `core/v1.Pod` → (`core_v1`, `Pod`).
fn place(name: &str) -> (String, String) {
    let (module, ty) = name.rsplit_once('.').unwrap_or(("misc", name));
    (module.replace(['/', '.', '-'], "_"), ty.replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
}

/// Returns the name of a field's method: `hostIPs` → `host_ips`, `type` → `type_`.
fn method(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, c) in chars.iter().enumerate() {
        if !c.is_ascii_alphanumeric() {
            if !out.is_empty() && !out.ends_with('_') {
                out.push('_');
            }
            continue;
        }
        if c.is_ascii_uppercase() {
            let after_lower = i > 0 && (chars[i - 1].is_ascii_lowercase() || chars[i - 1].is_ascii_digit());
            let next = chars.get(i + 1);
            // The plural s belongs to its acronym (`podIPs`).
            let plural = next == Some(&'s') && chars.get(i + 2).is_none_or(|c| !c.is_ascii_lowercase());
            let ends_acronym =
                i > 0 && chars[i - 1].is_ascii_uppercase() && next.is_some_and(char::is_ascii_lowercase) && !plural;
            if (after_lower || ends_acronym) && !out.is_empty() && !out.ends_with('_') {
                out.push('_');
            }
            out.push(c.to_ascii_lowercase());
        } else {
            out.push(*c);
        }
    }
    match out.as_str() {
        "type" | "continue" | "ref" | "match" | "as" | "in" | "for" | "not" | "self" | "where" | "use" | "mod"
        | "if" | "else" | "enum" | "static" | "default" | "node" | "new" | "of" | "exists" => format!("{out}_"),
        _ => out,
    }
}

fn rust_type(ty: &str) -> String {
    if let Some(inner) = ty.strip_prefix("[]") {
        return format!("super::List<'a, {}>", rust_type(inner));
    }
    if let Some(inner) = ty.strip_prefix("map[string]") {
        return format!("super::Map<'a, {}>", rust_type(inner));
    }
    match ty {
        "bool" => "bool".into(),
        "int32" | "int64" => "i64".into(),
        "float64" => "f64".into(),
        "string" | "bytes" | "Quantity" | "Time" | "MicroTime" | "Duration" => "&'a str".into(),
        "IntOrString" => "super::IntOrStr<'a>".into(),
        _ if !is_struct(ty) => "&'a Value".into(),
        _ => {
            let (module, name) = place(ty);
            format!("super::{module}::{name}<'a>")
        }
    }
}

fn is_struct(ty: &str) -> bool {
    ty.contains('.')
}

/// Writes all views, one module per group and version.
pub(crate) fn write(facts: &Facts) -> Result<String, std::fmt::Error> {
    let mut modules: BTreeMap<String, String> = BTreeMap::new();
    for ty in &facts.types {
        let (module, name) = place(&ty.name);
        write_view(modules.entry(module).or_default(), ty, &name)?;
    }
    let mut out = String::new();
    for (module, body) in modules {
        writeln!(
            out,
            "/// Views of `{module}`.\npub mod {module} {{\n#[allow(unused_imports)] use super::{{FromValue, MapNode, View, list_mut, map_mut, read, read_pointer, struct_mut}};\n#[allow(unused_imports)] use crate::{{FieldId, Str, Struct, TypeRef, Value}};\n{body}}}"
        )?;
    }
    Ok(out)
}

fn write_view(out: &mut String, ty: &Type, name: &str) -> std::fmt::Result {
    let id = ident(&ty.name);
    writeln!(
        out,
        "/// Reads `{0}`.\n#[derive(Clone, Copy, Debug)]\npub struct {name}<'a>(Option<&'a Struct>);\n\
         impl<'a> View<'a> for {name}<'a> {{ const TYPE: TypeRef = &crate::resources::{id}; #[inline] fn new(node: &'a Struct) -> Self {{ Self(Some(node)) }} #[inline] fn node(self) -> Option<&'a Struct> {{ self.0 }} }}\n\
         impl<'a> FromValue<'a> for {name}<'a> {{ #[inline] fn from_value(value: &'a Value) -> Self {{ Self(value.as_struct()) }} #[inline] fn absent() -> Self {{ Self(None) }} }}\n\
         impl<'a> {name}<'a> {{ /// A view of a node that may be absent.\n#[inline] #[must_use] pub fn from_option(node: Option<&'a Struct>) -> Self {{ Self(node) }}",
        ty.name
    )?;
    for (i, f) in ty.fields.iter().enumerate() {
        let (get, rt) = (method(&f.name), rust_type(&f.ty));
        if f.pointer
            || matches!(f.ty.as_str(), "RawExtension" | "JSON" | "FieldsV1")
            || f.ty.starts_with("JSONSchemaPropsOr")
        {
            writeln!(
                out,
                "/// `{0}`, if set.\n#[inline] #[must_use] pub fn {get}(self) -> Option<{rt}> {{ read_pointer(self.0, {i}) }}",
                f.name
            )?;
        } else {
            writeln!(
                out,
                "/// `{0}`.\n#[inline] #[must_use] pub fn {get}(self) -> {rt} {{ read(self.0, {i}) }}",
                f.name
            )?;
        }
    }
    writeln!(
        out,
        "}}\n/// Changes `{0}`.\n#[derive(Debug)]\npub struct {name}Mut<'a>(&'a mut Struct);\nimpl<'a> {name}Mut<'a> {{ \
         /// Changes this node, which must be of the view's type.\n#[inline] #[must_use] pub fn new(node: &'a mut Struct) -> Self {{ debug_assert!(std::ptr::eq(node.ty(), &raw const crate::resources::{id})); Self(node) }}\n\
         /// Changes this list item or map value, if it is a struct.\n#[inline] #[must_use] pub fn from_value(value: &'a mut Value) -> Option<Self> {{ value.as_struct_mut().map(Self) }}\n\
         /// The node.\n#[inline] #[must_use] pub fn node(self) -> &'a mut Struct {{ self.0 }}\n\
         /// The node, borrowed.\n#[inline] pub fn raw_mut(&mut self) -> &mut Struct {{ self.0 }}\n\
         /// Reads what is being changed.\n#[inline] #[must_use] pub fn read(&self) -> {name}<'_> {{ {name}(Some(&*self.0)) }}",
        ty.name
    )?;
    for (i, f) in ty.fields.iter().enumerate() {
        let get = method(&f.name);
        let base = get.trim_end_matches('_');
        if f.ty.starts_with("[]") {
            writeln!(
                out,
                "/// `{0}`, made if need be.\n#[inline] pub fn {base}_mut(&mut self) -> &mut thin_vec::ThinVec<Value> {{ list_mut(self.0, {i}) }}",
                f.name
            )?;
        } else if f.ty.starts_with("map[") {
            writeln!(
                out,
                "/// `{0}`, made if need be.\n#[inline] pub fn {base}_mut(&mut self) -> &mut MapNode {{ map_mut(self.0, {i}) }}",
                f.name
            )?;
        } else if is_struct(&f.ty) {
            let (module, target) = place(&f.ty);
            writeln!(
                out,
                "/// `{0}`, made if need be.\n#[inline] pub fn {base}_mut(&mut self) -> super::{module}::{target}Mut<'_> {{ super::{module}::{target}Mut::new(struct_mut(self.0, {i}, &crate::resources::{1})) }}",
                f.name,
                ident(&f.ty)
            )?;
        }
        writeln!(
            out,
            "/// Sets `{0}`.\n#[inline] pub fn set_{base}(&mut self, value: impl Into<Value>) -> &mut Self {{ self.0.set(FieldId({i}), value.into()); self }}",
            f.name
        )?;
        writeln!(
            out,
            "/// Removes `{0}`.\n#[inline] pub fn clear_{base}(&mut self) -> &mut Self {{ self.0.remove(FieldId({i})); self }}",
            f.name
        )?;
    }
    writeln!(out, "}}")
}

//! Refuses patches that change `kind` or `apiVersion`: upstream decodes the result as the new kind and then finds no conversion back.

use oarlock_codec::{Mode, tree};
use oarlock_schema::{TypeRef, Value, type_of_kind};

use crate::errors::json_kind;

/// Refuses a document whose `kind` and `apiVersion` are not those of `ty`, in upstream's words. Another version of the same kind is converted; an empty or absent
/// field is filled in from the endpoint.
pub(crate) fn check(doc: &Value, ty: TypeRef) -> Result<(), String> {
    let Some(own) = ty.gvk else { return Ok(()) };
    let (version, kind) = (text(doc, "apiVersion")?, text(doc, "kind")?);
    let kind = if kind.is_empty() { own.kind } else { kind };
    if version.is_empty() {
        return if kind == own.kind { Ok(()) } else { Err(unknown_conversion("core", kind, ty)) };
    }
    if version.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {version}"));
    }
    let (group, number) = version.split_once('/').unwrap_or(("", version));
    if (group, kind) == (own.group, own.kind) && (number == own.version || type_of_kind(group, number, kind).is_some())
    {
        return Ok(());
    }
    let Some(other) = type_of_kind(group, number, kind) else {
        return Err(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
        ));
    };
    // Upstream has one internal kind for the Events of both groups.
    if kind == "Event" && own.kind == "Event" {
        return Ok(());
    }
    tree::type_value(doc, other, Mode::Lenient).map_err(|error| error.to_string())?;
    Err(unknown_conversion(number, kind, ty))
}

fn unknown_conversion(package: &str, kind: &str, ty: TypeRef) -> String {
    let (group, own) = ty.gvk.map_or(("", ""), |gvk| (gvk.group, gvk.kind));
    let inside = match group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!("converting ({package}.{kind}) to ({inside}.{own}): unknown conversion")
}

/// Returns a text of the document; empty when absent or null.
fn text<'a>(doc: &'a Value, name: &str) -> Result<&'a str, String> {
    match doc.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::Str(text)) => Ok(text),
        Some(other) => {
            let (kind, field) = (json_kind(other), if name == "kind" { "kind" } else { "apiVersion" });
            Err(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into Go struct field .{field} of type string"
            ))
        }
    }
}

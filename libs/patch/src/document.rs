//! Applies the classic patch types: converts the object to generic form, patches, decodes the result, and reports upstream's errors.

use oarlock_codec::{Mode, json, tree};
use oarlock_meta::field::{FieldError, Path};
use oarlock_meta::{GroupKind, Status};
use oarlock_schema::{Obj, Value};

use crate::errors::json_kind;
use crate::patch_kind::PatchKind;
use crate::{go_fmt, json_patch, kind, merge, shown, strategic, unstructured};

/// The request's `fieldValidation`. An absent parameter means [`Validation::Warn`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Validation {
    /// Drop unknown and duplicate fields silently.
    Ignore,
    /// Drop unknown and duplicate fields and warn.
    #[default]
    Warn,
    /// Refuse requests with unknown or duplicate fields.
    Strict,
}

/// A patched object, before defaulting.
#[derive(Debug, Clone, PartialEq)]
pub struct Patched {
    /// The object, as decoded.
    pub obj: Obj,
    /// The warnings for the client: unknown and duplicate fields.
    pub warnings: Vec<String>,
}

/// Upstream's message when the patched document is no object, in two parts around the document's JSON kind.
const NO_KIND_START: &str = "couldn't get version/kind; json parse error: json: cannot unmarshal ";
const NO_KIND_END: &str = " into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
    Kind string \"json:\\\"kind,omitempty\\\"\" }";

/// Applies a patch to the current object.
///
/// # Errors
/// Upstream's: 400 for a body that is no patch, 413 for too many operations, 422 for a patch that does not apply or whose
/// result cannot be decoded (cause field `patch`), and 500 for strategic patches for which upstream has no other code.
pub fn apply_patch(kind: PatchKind, current: &Obj, patch: &[u8], validation: Validation) -> Result<Patched, Status> {
    let mode = if validation == Validation::Ignore { Mode::Lenient } else { Mode::Strict };
    // Field sets are the largest part of many objects and patches rarely touch them; they are set aside and restored unchanged.
    let spare = spares_managed_fields(kind, patch);
    let doc = if spare { tree::untype(&without_managed_fields(current)) } else { tree::untype(current) };

    let (doc, mut problems) = match kind {
        PatchKind::Json => json_patch::patch(doc, patch, mode)?,
        PatchKind::Merge => merge::patch(doc, patch, mode)?,
        PatchKind::Strategic => strategic::patch(doc, patch, current.ty(), mode)?,
    };
    let refuse = |detail: String| {
        let read = json::decode_value(patch, Mode::Lenient).map(|decoded| decoded.value).unwrap_or_default();
        let shown = match kind {
            PatchKind::Strategic => go_fmt::plain(&read),
            PatchKind::Json | PatchKind::Merge if spare => {
                let mut whole = doc.clone();
                put_managed_fields(current, &mut whole);
                shown::document(kind, &whole, current, &read)
            }
            PatchKind::Json | PatchKind::Merge => shown::document(kind, &doc, current, &read),
        };
        let error = FieldError::invalid(&Path::new("patch"), shown, detail);
        Status::invalid(&GroupKind::default(), "", &[error])
    };
    if kind != PatchKind::Strategic && !matches!(doc, Value::Map(_)) {
        let found = json_kind(&doc);
        return Err(refuse(format!("{NO_KIND_START}{found}{NO_KIND_END}")));
    }
    if kind != PatchKind::Strategic {
        kind::check(&doc, current.ty()).map_err(refuse)?;
    }
    let decoded = match kind {
        PatchKind::Strategic => unstructured::typed(&doc, current.ty(), mode),
        PatchKind::Json | PatchKind::Merge => tree::type_value(&doc, current.ty(), mode),
    };
    let decoded = decoded.map_err(|error| {
        refuse(match kind {
            PatchKind::Strategic => unstructured::refusal(&doc, current.ty(), &error),
            PatchKind::Json | PatchKind::Merge => error.to_string(),
        })
    })?;
    problems.extend(decoded.findings.iter().map(ToString::to_string));
    if validation == Validation::Strict && !problems.is_empty() {
        return Err(refuse(format!("strict decoding error: {}", problems.join(", "))));
    }
    let mut obj = decoded.value;
    // A strategic patch is merged into a typed object, which keeps its kind regardless of the patch.
    if let Some(gvk) = current.ty().gvk {
        obj.set_gvk(gvk);
    }
    if spare {
        restore_managed_fields(current, &mut obj);
    }
    Ok(Patched { obj, warnings: problems })
}

/// Whether the patch cannot affect `metadata.managedFields`: the patch does not name the field, and no JSON patch operation addresses
/// the metadata or the object as a whole.
fn spares_managed_fields(kind: PatchKind, patch: &[u8]) -> bool {
    let has = |needle: &[u8]| memchr::memmem::find(patch, needle).is_some();
    if has(b"managedFields") || has(b"\\u") {
        return false;
    }
    kind != PatchKind::Json || !(has(b"\"/metadata\"") || has(b"\"\"") || has(b"\\/"))
}

fn without_managed_fields(current: &Obj) -> Obj {
    let mut bare = current.clone();
    if let Some(meta) = bare.get_mut("metadata").and_then(Value::as_struct_mut) {
        meta.remove_name("managedFields");
    }
    bare
}

fn restore_managed_fields(current: &Obj, patched: &mut Obj) {
    let Some(fields) = current.at(&["metadata", "managedFields"]) else { return };
    patched.set_at(&["metadata", "managedFields"], fields.clone());
}

/// Restores the field sets in the patched document that the error of a refused patch shows.
fn put_managed_fields(current: &Obj, doc: &mut Value) {
    let Some(fields) = current.at(&["metadata", "managedFields"]) else { return };
    if let Value::Map(root) = doc
        && let Some(Value::Map(meta)) = root.get_mut("metadata")
    {
        meta.insert("managedFields", fields.clone());
    }
}

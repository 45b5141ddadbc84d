//! Conflicts of server-side apply, in upstream's words.

use oarlock_meta::quote::quote;
use oarlock_meta::status::cause::FIELD_MANAGER_CONFLICT;
use oarlock_meta::{Cause, Status};

use super::element::Element;
use super::managers::Identity;
use super::set::{FieldSet, path_text};

/// A manager that owns fields which the configuration sets to other values.
#[derive(Debug, Clone)]
pub(super) struct Conflict {
    pub(super) who: Identity,
    pub(super) fields: FieldSet,
}

impl Conflict {
    fn paths(&self) -> Vec<Vec<Element>> {
        let mut out = Vec::new();
        self.fields.paths(&mut |path| out.push(path.to_vec()));
        out
    }
}

/// Returns `"name" with subresource "x" using v1`; the version is omitted for appliers.
fn manager_text(who: &Identity) -> String {
    let mut out = quote(&who.manager);
    if !who.subresource.is_empty() {
        out += &format!(" with subresource {}", quote(&who.subresource));
    }
    if !who.applied {
        out += &format!(" using {}", who.api_version);
    }
    out
}

/// Makes the 409 with one cause per manager and field. Upstream lists managers in random order; here the managers are sorted.
pub(super) fn status(mut conflicts: Vec<Conflict>) -> Status {
    conflicts.sort_by_key(|conflict| conflict.who.sort_key());
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    for conflict in &conflicts {
        let manager = manager_text(&conflict.who);
        lines.push(format!("conflicts with {manager}:"));
        for path in conflict.paths() {
            let path = path_text(&path);
            lines.push(format!("- {path}"));
            causes.push(Cause {
                reason: FIELD_MANAGER_CONFLICT.into(),
                message: format!("conflict with {manager}"),
                field: path,
            });
        }
    }
    let message = match causes.as_slice() {
        [only] => format!("Apply failed with 1 conflict: {}: {}", only.message, only.field),
        many => format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n")),
    };
    Status::apply_conflict(causes, message)
}

//! A requested change of a stored object, and the revision on which the request insists.

use oarlock_meta::{FieldError, GroupKind, Path, Revision, Status, revision};
use oarlock_schema::Obj;

use crate::target::Target;

/// The new state that a request wants for a stored object.
#[derive(Debug)]
pub struct Change {
    /// The requested object, in the stored type.
    pub obj: Obj,
    /// Precondition: the stored object still has this revision. `None` means no precondition.
    pub expect: Option<Revision>,
    /// Whether `managedFields` are already up to date, as they are after an apply.
    pub managed: bool,
    /// Whether the server makes the change by rules of its own (binding, eviction). Rules about what clients may change then do not apply, and the
    /// admission stages, which have judged the request itself (a Binding, an Eviction), do not see the change of the object.
    pub trusted: bool,
}

impl Change {
    /// Creates a change that a client requested.
    #[must_use]
    pub fn asked(obj: Obj, expect: Option<Revision>) -> Self {
        Self { obj, expect, managed: false, trusted: false }
    }

    /// Creates a change that the server makes itself.
    #[must_use]
    pub fn own(obj: Obj) -> Self {
        Self { obj, expect: None, managed: true, trusted: true }
    }
}

/// Returns the revision that a body states. Kinds that forbid unconditional updates require one.
///
/// # Errors
/// 500, as upstream answers, when the revision is not a number; 422 when a required one is missing.
pub(crate) fn expected(target: &Target<'_>, obj: &Obj) -> Result<Option<Revision>, Status> {
    let text = obj.meta().resource_version();
    if text.is_empty() || text == "0" {
        let resource = target.resource();
        if resource.unconditional_update {
            return Ok(None);
        }
        let path = Path::new("metadata");
        let error = FieldError::invalid(&path.child("resourceVersion"), 0, "must be specified for an update");
        // Upstream writes the resource where the kind belongs.
        return Err(Status::invalid(&GroupKind::new(resource.group, resource.plural), target.name, &[error]));
    }
    parse_revision(text).map(Some)
}

/// Parses the resourceVersion of a body.
///
/// # Errors
/// 500, as upstream answers, when it is not a number.
pub fn parse_revision(text: &str) -> Result<Revision, Status> {
    text.parse().map_err(|_| Status::unexpected(revision::invalid_syntax(text)))
}

//! What a request makes of a stored object, and on which revision of it.

use oarlock_meta::{FieldError, GroupKind, Path, Revision, Status, revision};
use oarlock_schema::Obj;

use crate::target::Target;

/// What a change makes of the stored object.
#[derive(Debug)]
pub struct Change {
    /// The object as the request wants it, in the stored type.
    pub obj: Obj,
    /// Only if the stored object still has this revision.
    pub expect: Option<Revision>,
    /// managedFields are already as they should be (apply).
    pub managed: bool,
    /// The server made the change by rules of its own (binding, eviction): rules about what clients may change do not apply. The admission stages have seen
    /// the request itself (a Binding, an Eviction), and do not see the change of the object.
    pub trusted: bool,
}

impl Change {
    /// A change that a client asked for.
    #[must_use]
    pub fn asked(obj: Obj, expect: Option<Revision>) -> Self {
        Self { obj, expect, managed: false, trusted: false }
    }

    /// A change that the server makes itself.
    #[must_use]
    pub fn own(obj: Obj) -> Self {
        Self { obj, expect: None, managed: true, trusted: true }
    }
}

/// The revision that a body names; kinds that forbid unconditional updates insist on one.
///
/// # Errors
/// 500, as upstream has it, when it is no number; 422 when there must be one.
pub(crate) fn expected(target: &Target<'_>, obj: &Obj) -> Result<Option<Revision>, Status> {
    let text = obj.meta().resource_version();
    if text.is_empty() || text == "0" {
        let resource = target.resource();
        if resource.unconditional_update {
            return Ok(None);
        }
        let path = Path::new("metadata");
        let error = FieldError::invalid(&path.child("resourceVersion"), 0, "must be specified for an update");
        // Upstream puts the resource where the kind belongs.
        return Err(Status::invalid(&GroupKind::new(resource.group, resource.plural), target.name, &[error]));
    }
    parse_revision(text).map(Some)
}

/// Parses a resourceVersion of a body.
///
/// # Errors
/// 500, as upstream has it, when it is no number.
pub fn parse_revision(text: &str) -> Result<Revision, Status> {
    text.parse().map_err(|_| Status::unexpected(revision::invalid_syntax(text)))
}

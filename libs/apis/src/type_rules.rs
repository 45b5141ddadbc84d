//! Rows of the table: the rules of one struct type each.

use oarlock_meta::{ErrorList, Path};
use oarlock_schema::Struct;

/// The rules of one struct type. Every function gets a node of this type only; the walk visits the nodes below.
#[derive(Clone, Copy, Debug)]
pub struct TypeRules {
    /// Schema name, such as `core/v1.PodSpec`.
    pub ty: &'static str,
    /// Fields that must not be empty, if upstream has no further rule about their absence.
    pub required: &'static [&'static str],
    /// Enumerations that upstream checks, with values from the schema data. Empty values are accepted: other rules default or require them.
    pub enums: &'static [&'static str],
    /// Numbers that must not be negative.
    pub non_negative: &'static [&'static str],
    /// Fields that must not change once the object exists.
    pub immutable: &'static [&'static str],
    /// Fields of a kind that an update validates only if it changes them: they may have been stored when the rules were less strict.
    pub unchanged_passes: &'static [&'static str],
    /// Sets conditional defaults; constant ones are set from the schema data just before. Parents come before children.
    pub default: Option<fn(&mut Struct)>,
    /// Returns the node in the form that is validated, if it differs from the stored form (claims of a StatefulSet are volumes of its pods).
    pub seen_as: Option<fn(&Struct) -> Option<Struct>>,
    /// Reports the errors of a node.
    pub validate: Option<fn(&Struct, &Path<'_>, &mut ErrorList)>,
    /// Reports errors of a node after all nodes below, because errors keep upstream's order.
    pub after: Option<fn(&Struct, &Path<'_>, &mut ErrorList)>,
    /// Reports errors of a node only while the object is being created.
    pub create: Option<fn(&Struct, &Path<'_>, &mut ErrorList)>,
    /// Reports errors of a change of a node that has the same position before and after.
    pub validate_update: Option<fn(&Struct, &Struct, &Path<'_>, &mut ErrorList)>,
    /// Reports errors of a status update, for the object's own type. The function gets the whole objects, before and after.
    pub status: Option<fn(&Struct, &Struct, &mut ErrorList)>,
    /// Whether a status update must leave an object that is valid as a whole, for the object's own type.
    pub whole_status: bool,
    /// Texts for `Warning` headers.
    pub warnings: Option<fn(&Struct, &Path<'_>, &mut Vec<String>)>,
}

impl TypeRules {
    /// Makes a row without rules, to be extended.
    #[must_use]
    pub const fn of(ty: &'static str) -> Self {
        Self {
            ty,
            required: &[],
            enums: &[],
            non_negative: &[],
            immutable: &[],
            unchanged_passes: &[],
            default: None,
            seen_as: None,
            validate: None,
            after: None,
            create: None,
            validate_update: None,
            status: None,
            whole_status: false,
            warnings: None,
        }
    }
    /// Adds required fields.
    #[must_use]
    pub const fn required(mut self, fields: &'static [&'static str]) -> Self {
        self.required = fields;
        self
    }
    /// Adds enumerations.
    #[must_use]
    pub const fn enums(mut self, fields: &'static [&'static str]) -> Self {
        self.enums = fields;
        self
    }
    /// Adds numbers that must not be negative.
    #[must_use]
    pub const fn non_negative(mut self, fields: &'static [&'static str]) -> Self {
        self.non_negative = fields;
        self
    }
    /// Adds immutable fields.
    #[must_use]
    pub const fn immutable(mut self, fields: &'static [&'static str]) -> Self {
        self.immutable = fields;
        self
    }
    /// Adds fields of a kind that an update validates only if it changes them.
    #[must_use]
    pub const fn unchanged_passes(mut self, fields: &'static [&'static str]) -> Self {
        self.unchanged_passes = fields;
        self
    }
    /// Sets the defaulting function.
    #[must_use]
    pub const fn default(mut self, f: fn(&mut Struct)) -> Self {
        self.default = Some(f);
        self
    }
    /// Sets the conversion to the validated form.
    #[must_use]
    pub const fn seen_as(mut self, f: fn(&Struct) -> Option<Struct>) -> Self {
        self.seen_as = Some(f);
        self
    }
    /// Sets the validation.
    #[must_use]
    pub const fn validate(mut self, f: fn(&Struct, &Path<'_>, &mut ErrorList)) -> Self {
        self.validate = Some(f);
        self
    }
    /// Sets the validation after that of the nodes below.
    #[must_use]
    pub const fn after(mut self, f: fn(&Struct, &Path<'_>, &mut ErrorList)) -> Self {
        self.after = Some(f);
        self
    }
    /// Sets the validation at creation.
    #[must_use]
    pub const fn create(mut self, f: fn(&Struct, &Path<'_>, &mut ErrorList)) -> Self {
        self.create = Some(f);
        self
    }
    /// Sets the validation of changes.
    #[must_use]
    pub const fn validate_update(mut self, f: fn(&Struct, &Struct, &Path<'_>, &mut ErrorList)) -> Self {
        self.validate_update = Some(f);
        self
    }
    /// Sets the validation of writes to the endpoint `status`.
    #[must_use]
    pub const fn status(mut self, f: fn(&Struct, &Struct, &mut ErrorList)) -> Self {
        self.status = Some(f);
        self
    }
    /// Requires validation of the whole object on writes to the endpoint `status`.
    #[must_use]
    pub const fn whole_status(mut self) -> Self {
        self.whole_status = true;
        self
    }
    /// Sets the warnings.
    #[must_use]
    pub const fn warnings(mut self, f: fn(&Struct, &Path<'_>, &mut Vec<String>)) -> Self {
        self.warnings = Some(f);
        self
    }
}

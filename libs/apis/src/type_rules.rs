//! A row of the table: the rules of one struct type.

use oarlock_meta::{ErrorList, Path};
use oarlock_schema::Struct;

/// The rules of one struct type. Every function sees a node of that type only; the walk visits what is below it.
#[derive(Clone, Copy, Debug)]
pub struct TypeRules {
    /// Schema name, as `core/v1.PodSpec`.
    pub ty: &'static str,
    /// Fields that must not be empty, where upstream says nothing more about it.
    pub required: &'static [&'static str],
    /// Enumerations that upstream checks; their values are in the schema data. Empty values pass: they are defaulted or required.
    pub enums: &'static [&'static str],
    /// Numbers that must not be below zero.
    pub non_negative: &'static [&'static str],
    /// Fields that never change once the object exists.
    pub immutable: &'static [&'static str],
    /// Fields of a kind that are not validated in an update which leaves them unchanged: they may have been stored when the rules were less strict.
    pub unchanged_passes: &'static [&'static str],
    /// Fills in conditional defaults; constant ones come from the schema data just before. Parents come before children.
    pub default: Option<fn(&mut Struct)>,
    /// The node as validation sees it, where that is not as it stands (claims of a StatefulSet are volumes of its pods).
    pub seen_as: Option<fn(&Struct) -> Option<Struct>>,
    /// Reports what is wrong with a node.
    pub validate: Option<fn(&Struct, &Path<'_>, &mut ErrorList)>,
    /// Reports what is wrong with a node once everything below it was looked at: errors keep upstream's order.
    pub after: Option<fn(&Struct, &Path<'_>, &mut ErrorList)>,
    /// Reports what is wrong with a node only while the object is being created.
    pub create: Option<fn(&Struct, &Path<'_>, &mut ErrorList)>,
    /// Reports what is wrong with a change of a node that is at the same place before and after.
    pub validate_update: Option<fn(&Struct, &Struct, &Path<'_>, &mut ErrorList)>,
    /// Reports errors of an update of the status, for the object's own type. The function gets the whole objects, before and after.
    pub status: Option<fn(&Struct, &Struct, &mut ErrorList)>,
    /// Whether an update of the status must leave an object that is valid as a whole, for the object's own type.
    pub whole_status: bool,
    /// Texts for `Warning` headers.
    pub warnings: Option<fn(&Struct, &Path<'_>, &mut Vec<String>)>,
}

impl TypeRules {
    /// A row without rules, to be extended.
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
    /// With fields that must be there.
    #[must_use]
    pub const fn required(mut self, fields: &'static [&'static str]) -> Self {
        self.required = fields;
        self
    }
    /// With enumerations.
    #[must_use]
    pub const fn enums(mut self, fields: &'static [&'static str]) -> Self {
        self.enums = fields;
        self
    }
    /// With numbers that are at least 0.
    #[must_use]
    pub const fn non_negative(mut self, fields: &'static [&'static str]) -> Self {
        self.non_negative = fields;
        self
    }
    /// With fields that never change.
    #[must_use]
    pub const fn immutable(mut self, fields: &'static [&'static str]) -> Self {
        self.immutable = fields;
        self
    }
    /// With fields of a kind that are not looked at while they stay the same.
    #[must_use]
    pub const fn unchanged_passes(mut self, fields: &'static [&'static str]) -> Self {
        self.unchanged_passes = fields;
        self
    }
    /// With defaults.
    #[must_use]
    pub const fn default(mut self, f: fn(&mut Struct)) -> Self {
        self.default = Some(f);
        self
    }
    /// With another look for validation.
    #[must_use]
    pub const fn seen_as(mut self, f: fn(&Struct) -> Option<Struct>) -> Self {
        self.seen_as = Some(f);
        self
    }
    /// With validation.
    #[must_use]
    pub const fn validate(mut self, f: fn(&Struct, &Path<'_>, &mut ErrorList)) -> Self {
        self.validate = Some(f);
        self
    }
    /// With validation after that of the parts.
    #[must_use]
    pub const fn after(mut self, f: fn(&Struct, &Path<'_>, &mut ErrorList)) -> Self {
        self.after = Some(f);
        self
    }
    /// With validation at creation.
    #[must_use]
    pub const fn create(mut self, f: fn(&Struct, &Path<'_>, &mut ErrorList)) -> Self {
        self.create = Some(f);
        self
    }
    /// With validation of changes.
    #[must_use]
    pub const fn validate_update(mut self, f: fn(&Struct, &Struct, &Path<'_>, &mut ErrorList)) -> Self {
        self.validate_update = Some(f);
        self
    }
    /// With validation of what the endpoint `status` writes.
    #[must_use]
    pub const fn status(mut self, f: fn(&Struct, &Struct, &mut ErrorList)) -> Self {
        self.status = Some(f);
        self
    }
    /// With validation of the whole object when the endpoint `status` writes it.
    #[must_use]
    pub const fn whole_status(mut self) -> Self {
        self.whole_status = true;
        self
    }
    /// With warnings.
    #[must_use]
    pub const fn warnings(mut self, f: fn(&Struct, &Path<'_>, &mut Vec<String>)) -> Self {
        self.warnings = Some(f);
        self
    }
}

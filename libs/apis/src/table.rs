//! One row per type that has rules, one row per kind whose name or change rules differ from the common ones.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

use oarlock_meta::{ErrorList, Path};
use oarlock_schema::{FieldId, Struct, TypeDef, TypeRef, Value};

use crate::kind::{self, KindRules};

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
    /// With warnings.
    #[must_use]
    pub const fn warnings(mut self, f: fn(&Struct, &Path<'_>, &mut Vec<String>)) -> Self {
        self.warnings = Some(f);
        self
    }
}

/// Rows of all types, by group.
const TYPES: &[&[TypeRules]] = &[
    crate::admissionregistration::TYPES,
    crate::apiextensions::TYPES,
    crate::apiregistration::TYPES,
    crate::apps::TYPES,
    crate::autoscaling::TYPES,
    crate::batch::TYPES,
    crate::certificates::TYPES,
    crate::core::TYPES,
    crate::discovery::TYPES,
    crate::flowcontrol::TYPES,
    crate::core::POD_TYPES,
    crate::meta::TYPES,
    crate::networking::TYPES,
    crate::coordination::TYPES,
    crate::policy::TYPES,
    crate::rbac::TYPES,
    crate::scheduling::TYPES,
    crate::storage::TYPES,
    crate::resource::TYPES,
];

/// Rows of the kinds that are special, by group.
const KINDS: &[&[KindRules]] = &[kind::COMMON];

/// Everything about one type, found by one look at its address.
pub(crate) struct Slot {
    pub(crate) rules: Option<&'static TypeRules>,
    /// Constant defaults of the schema data.
    pub(crate) constants: Vec<Constant>,
    pub(crate) required: Vec<FieldId>,
    pub(crate) enums: Vec<FieldId>,
    pub(crate) non_negative: Vec<FieldId>,
    pub(crate) immutable: Vec<FieldId>,
    /// Defaults exist here or below.
    pub(crate) defaults_below: bool,
    /// Rules exist here or below.
    pub(crate) rules_below: bool,
}

/// A constant default.
pub(crate) struct Constant {
    pub(crate) id: FieldId,
    pub(crate) value: Value,
    /// The field is a pointer: only absence counts as unset.
    pub(crate) pointer: bool,
}

/// Addresses of statics are as good as random numbers once multiplied.
#[derive(Clone, Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }
    fn write_usize(&mut self, n: usize) {
        self.0 = (self.0 ^ n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// A map from types to values, keyed by the type's address for a fast lookup.
pub(crate) type ByAddress<T> = HashMap<usize, T, BuildHasherDefault<AddressHasher>>;

type Slots = ByAddress<Slot>;

static SLOTS: LazyLock<Slots> = LazyLock::new(build);

pub(crate) fn address(ty: &TypeDef) -> usize {
    std::ptr::from_ref(ty) as usize
}

/// The slot of a type; types made at run time have none.
pub(crate) fn slot(ty: TypeRef) -> Option<&'static Slot> {
    SLOTS.get(&address(ty))
}

fn build() -> Slots {
    let rows: HashMap<&str, &'static TypeRules> =
        TYPES.iter().flat_map(|rows| rows.iter()).map(|row| (row.ty, row)).collect();
    let mut slots: Slots =
        oarlock_schema::TYPES.iter().map(|ty| (address(ty), own(ty, rows.get(ty.name).copied()))).collect();
    // What lies below is found by a fixed point, because types may be recursive.
    loop {
        let mut changed = false;
        for ty in oarlock_schema::TYPES {
            let (mut defaults, mut rules) = (false, false);
            for below in ty.fields.iter().filter_map(|f| f.shape.element_type()).filter_map(|t| slots.get(&address(t)))
            {
                defaults |= below.defaults_below;
                rules |= below.rules_below;
            }
            if let Some(slot) = slots.get_mut(&address(ty)) {
                changed |= (defaults && !slot.defaults_below) || (rules && !slot.rules_below);
                slot.defaults_below |= defaults;
                slot.rules_below |= rules;
            }
        }
        if !changed {
            return slots;
        }
    }
}

fn own(ty: TypeRef, rules: Option<&'static TypeRules>) -> Slot {
    let ids = |names: fn(&TypeRules) -> &'static [&'static str]| -> Vec<FieldId> {
        rules.map_or(&[][..], names).iter().filter_map(|name| ty.field(name)).map(|(id, _)| id).collect()
    };
    let constants: Vec<Constant> = ty
        .iter()
        .filter_map(|(id, def)| Some((id, def, crate::constant::parse(def.default?, &def.shape)?)))
        .map(|(id, def, value)| Constant { id, value, pointer: def.pointer })
        .collect();
    Slot {
        defaults_below: !constants.is_empty() || rules.is_some_and(|r| r.default.is_some()),
        rules_below: rules.is_some(),
        required: ids(|r| r.required),
        enums: ids(|r| r.enums),
        non_negative: ids(|r| r.non_negative),
        immutable: ids(|r| r.immutable),
        constants,
        rules,
    }
}

/// The rules of a type, if it has any.
#[must_use]
pub fn type_rules(ty: TypeRef) -> Option<&'static TypeRules> {
    slot(ty)?.rules
}

static BY_KIND: LazyLock<HashMap<&'static str, &'static KindRules>> =
    LazyLock::new(|| KINDS.iter().flat_map(|rows| rows.iter()).map(|row| (row.ty, row)).collect());

/// The rules of a kind; [`kind::DEFAULT`] when it has no row.
#[must_use]
pub fn kind_rules(ty: TypeRef) -> &'static KindRules {
    BY_KIND.get(ty.name).copied().unwrap_or(&kind::DEFAULT)
}

/// Rows that name a type or field that the schema does not know; empty unless someone mistyped.
#[must_use]
pub fn unknown_names() -> Vec<String> {
    let mut unknown = Vec::new();
    for (name, field, _) in crate::disabled::OTHERWISE {
        if oarlock_schema::type_named(name).is_none_or(|ty| ty.field(field).is_none()) {
            unknown.push(format!("{name}.{field}"));
        }
    }
    for row in TYPES.iter().flat_map(|rows| rows.iter()) {
        let Some(ty) = oarlock_schema::type_named(row.ty) else {
            unknown.push(row.ty.to_owned());
            continue;
        };
        let fields = row.required.iter().chain(row.enums).chain(row.non_negative).chain(row.immutable);
        unknown.extend(fields.filter(|f| ty.field(f).is_none()).map(|f| format!("{}.{f}", row.ty)));
        let closed = |f: &&&str| ty.field(f).is_some_and(|(_, def)| def.allowed.is_empty());
        unknown.extend(row.enums.iter().filter(closed).map(|f| format!("{}.{f} has no values", row.ty)));
    }
    unknown
}

//! The table of rules: one row per type with rules, and one row per kind whose name or change rules differ from the common ones.

use std::collections::HashMap;
use std::sync::LazyLock;

use oarlock_schema::{FieldId, TypeRef, Value};

use crate::by_address::{ByAddress, address};
use crate::kind::{self, KindRules};
use crate::type_rules::TypeRules;

/// The rows of all types, by group.
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

/// The rows of kinds with rules of their own, by group.
const KINDS: &[&[KindRules]] = &[kind::NAME_FORMAT_RULES];

/// The rules and defaults of one type, found by the type's address.
pub(crate) struct Slot {
    pub(crate) rules: Option<&'static TypeRules>,
    /// Constant defaults of the schema data.
    pub(crate) constants: Vec<Constant>,
    pub(crate) required: Vec<FieldId>,
    pub(crate) enums: Vec<FieldId>,
    pub(crate) non_negative: Vec<FieldId>,
    pub(crate) immutable: Vec<FieldId>,
    /// Whether defaults exist in this type or in a type below.
    pub(crate) defaults_below: bool,
    /// Whether rules exist in this type or in a type below.
    pub(crate) rules_below: bool,
}

/// A constant default.
pub(crate) struct Constant {
    pub(crate) id: FieldId,
    pub(crate) value: Value,
    /// Whether the field is a pointer, which is unset only when absent.
    pub(crate) pointer: bool,
}

type Slots = ByAddress<Slot>;

static SLOTS: LazyLock<Slots> = LazyLock::new(build);

/// Returns the slot of a type; types made at run time have none.
pub(crate) fn slot(ty: TypeRef) -> Option<&'static Slot> {
    SLOTS.get(&address(ty))
}

fn build() -> Slots {
    let rows: HashMap<&str, &'static TypeRules> =
        TYPES.iter().flat_map(|rows| rows.iter()).map(|row| (row.ty, row)).collect();
    let mut slots: Slots =
        oarlock_schema::TYPES.iter().map(|ty| (address(ty), own(ty, rows.get(ty.name).copied()))).collect();
    // What exists below is computed as a fixed point, because types may be recursive.
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

/// Returns the rules of a type, if any.
#[must_use]
pub fn type_rules(ty: TypeRef) -> Option<&'static TypeRules> {
    slot(ty)?.rules
}

static BY_KIND: LazyLock<HashMap<&'static str, &'static KindRules>> =
    LazyLock::new(|| KINDS.iter().flat_map(|rows| rows.iter()).map(|row| (row.ty, row)).collect());

/// Returns the rules of a kind; [`kind::DEFAULT`] for a kind without a row.
#[must_use]
pub fn kind_rules(ty: TypeRef) -> &'static KindRules {
    BY_KIND.get(ty.name).copied().unwrap_or(&kind::DEFAULT)
}

/// Returns the rows that name a type or field that the schema lacks; only a spelling mistake makes the list non-empty.
#[must_use]
pub fn unknown_names() -> Vec<String> {
    let mut unknown = Vec::new();
    for (name, field, _) in crate::disabled::GATE_EXCEPTIONS {
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

//! The rules and constant defaults of every type and kind, found by the address of the schema type.

use std::collections::HashMap;

use oarlock_schema::{FieldId, TypeRef, Value};

use crate::by_address::{ByAddress, address};
use crate::kind::{self, KindRules};
use crate::type_rules::TypeRules;

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
    /// Whether rules about warnings exist in this type or in a type below.
    pub(crate) warnings_below: bool,
    /// The rules of the kind, for the type of a kind that has some of its own.
    kind: Option<&'static KindRules>,
}

/// A constant default.
pub(crate) struct Constant {
    pub(crate) id: FieldId,
    pub(crate) value: Value,
    /// Whether the field is a pointer, which is unset only when absent.
    pub(crate) pointer: bool,
}

/// The rules of all types and kinds.
pub(crate) struct RuleSet {
    slots: ByAddress<Slot>,
}

impl RuleSet {
    /// The rules of these rows, with the constant defaults of the schema data.
    pub(crate) fn new(types: &'static [&'static [TypeRules]], kinds: &'static [&'static [KindRules]]) -> Self {
        let rows: HashMap<&str, &'static TypeRules> =
            types.iter().flat_map(|rows| rows.iter()).map(|row| (row.ty, row)).collect();
        let kinds: HashMap<&str, &'static KindRules> =
            kinds.iter().flat_map(|rows| rows.iter()).map(|row| (row.ty, row)).collect();
        let slot = |ty: TypeRef| own(ty, rows.get(ty.name).copied(), kinds.get(ty.name).copied());
        let mut slots: ByAddress<Slot> = oarlock_schema::TYPES.iter().map(|ty| (address(ty), slot(ty))).collect();
        mark_what_is_below(&mut slots);
        Self { slots }
    }

    /// Returns the slot of a type; types made at run time have none.
    pub(crate) fn slot(&self, ty: TypeRef) -> Option<&Slot> {
        self.slots.get(&address(ty))
    }

    /// Returns the rules of a kind; [`kind::DEFAULT`] for a kind without a row.
    pub(crate) fn kind(&self, ty: TypeRef) -> &'static KindRules {
        self.slot(ty).and_then(|slot| slot.kind).unwrap_or(&kind::DEFAULT)
    }
}

/// Marks the types below which rules or defaults exist: a fixed point, because types may be recursive.
fn mark_what_is_below(slots: &mut ByAddress<Slot>) {
    loop {
        let mut changed = false;
        for ty in oarlock_schema::TYPES {
            let (mut defaults, mut rules, mut warnings) = (false, false, false);
            for below in ty.fields.iter().filter_map(|f| f.shape.element_type()).filter_map(|t| slots.get(&address(t)))
            {
                defaults |= below.defaults_below;
                rules |= below.rules_below;
                warnings |= below.warnings_below;
            }
            if let Some(slot) = slots.get_mut(&address(ty)) {
                changed |= (defaults && !slot.defaults_below)
                    || (rules && !slot.rules_below)
                    || (warnings && !slot.warnings_below);
                slot.defaults_below |= defaults;
                slot.rules_below |= rules;
                slot.warnings_below |= warnings;
            }
        }
        if !changed {
            return;
        }
    }
}

fn own(ty: TypeRef, rules: Option<&'static TypeRules>, kind: Option<&'static KindRules>) -> Slot {
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
        warnings_below: rules.is_some_and(|r| r.warnings.is_some()),
        required: ids(|r| r.required),
        enums: ids(|r| r.enums),
        non_negative: ids(|r| r.non_negative),
        immutable: ids(|r| r.immutable),
        constants,
        rules,
        kind,
    }
}

//! The path of the value that a decoder is reading, kept on the stack and formatted only for errors.
//!
//! A path prints in two forms: strict findings show indexes and map keys (`spec.containers[0].foo`), Go's type errors show
//! only the fields, prefixed by the innermost struct (`PodSpec.spec.hostNetwork`).

use std::fmt::Write as _;

use oarlock_schema::{FieldDef, TypeRef};

/// One step of a path from the object's root.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    up: Option<&'a Frame<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(TypeRef, &'static FieldDef),
    Index(usize),
    Key(&'a str),
    /// The start of a value with a decoder of its own; Go names errors inside such a value after the struct around it.
    Inner,
}

impl<'a> Frame<'a> {
    pub(crate) const ROOT: Frame<'static> = Frame { up: None, step: Step::Root };

    pub(crate) const fn field<'b>(&'b self, ty: TypeRef, def: &'static FieldDef) -> Frame<'b>
    where
        'a: 'b,
    {
        Frame { up: Some(self), step: Step::Field(ty, def) }
    }

    /// Returns the type of the struct whose field this is; `None` for list items, map values and the root.
    pub(crate) const fn owner(&self) -> Option<TypeRef> {
        match self.step {
            Step::Field(ty, _) => Some(ty),
            Step::Root | Step::Index(_) | Step::Key(_) | Step::Inner => None,
        }
    }

    pub(crate) const fn index<'b>(&'b self, index: usize) -> Frame<'b>
    where
        'a: 'b,
    {
        Frame { up: Some(self), step: Step::Index(index) }
    }

    pub(crate) const fn key<'b>(&'b self, key: &'b str) -> Frame<'b>
    where
        'a: 'b,
    {
        Frame { up: Some(self), step: Step::Key(key) }
    }

    pub(crate) const fn inner<'b>(&'b self) -> Frame<'b>
    where
        'a: 'b,
    {
        Frame { up: Some(self), step: Step::Inner }
    }

    /// Returns the path of a field `name` of this value, in the form of strict findings.
    pub(crate) fn finding(&self, name: &str) -> String {
        let mut out = String::new();
        self.write(&mut out);
        if !out.is_empty() {
            out.push('.');
        }
        out.push_str(name);
        out
    }

    fn write(&self, out: &mut String) {
        if let Some(up) = self.up {
            up.write(out);
        }
        let name = match self.step {
            Step::Root | Step::Inner => return,
            Step::Index(index) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "[{index}]");
                return;
            }
            Step::Field(_, def) => def.name,
            Step::Key(key) => key,
        };
        if !out.is_empty() {
            out.push('.');
        }
        out.push_str(name);
    }

    /// Returns Go's type error: the value is `what` (such as `number 1.5`), the field needs `wanted` (such as `int32`).
    pub(crate) fn type_error(&self, what: &str, wanted: &str) -> String {
        let mut fields = String::new();
        let mut owner = None;
        self.go_fields(&mut fields, &mut owner, &mut true);
        match owner {
            Some(owner) => {
                format!("json: cannot unmarshal {what} into Go struct field {owner}.{fields} of type {wanted}")
            }
            None => format!("json: cannot unmarshal {what} into Go value of type {wanted}"),
        }
    }

    fn go_fields(&self, out: &mut String, owner: &mut Option<&'static str>, outside: &mut bool) {
        if let Some(up) = self.up {
            up.go_fields(out, owner, outside);
        }
        match self.step {
            Step::Inner if owner.is_some() => *outside = false,
            Step::Field(ty, def) => {
                if *outside {
                    *owner = Some(ty.short_name());
                }
                if !out.is_empty() {
                    out.push('.');
                }
                if let Some(embedded) = embedded(ty, def) {
                    out.push_str(embedded);
                    out.push('.');
                }
                out.push_str(def.name);
            }
            _ => {}
        }
    }
}

/// Returns Go's name of the embedded struct that contains a field; Go's type errors show this name.
fn embedded(ty: TypeRef, def: &FieldDef) -> Option<&'static str> {
    let inlined = match ty.short_name() {
        "Volume" => "VolumeSource",
        "PersistentVolumeSpec" => "PersistentVolumeSource",
        "Probe" => "ProbeHandler",
        "EphemeralContainer" => "EphemeralContainerCommon",
        "IngressRule" => "IngressRuleValue",
        "RuleWithOperations" => "Rule",
        "NamedRuleWithOperations" => "RuleWithOperations",
        "SecretProjection"
        | "ConfigMapVolumeSource"
        | "ConfigMapProjection"
        | "ConfigMapKeySelector"
        | "SecretKeySelector"
        | "ConfigMapEnvSource"
        | "SecretEnvSource" => "LocalObjectReference",
        "DeviceClaimConfiguration" | "DeviceClassConfiguration" | "DeviceAllocationConfiguration" => {
            "DeviceConfiguration"
        }
        _ => return None,
    };
    (!def.via.is_empty()).then_some(inlined)
}

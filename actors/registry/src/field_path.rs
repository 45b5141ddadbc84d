//! Paths of fields that are read from many objects of one type.

use oarlock_schema::{FieldDef, FieldId, Obj, Shape, Struct, TypeRef, Value};

/// The path of a field below structs, with the fields found once for all objects.
pub(crate) struct FieldPath {
    names: Vec<&'static str>,
    /// Type and field of each step; `None` for a path that the schema does not have, such as one below a list.
    steps: Option<Vec<(TypeRef, FieldId)>>,
}

impl FieldPath {
    pub(crate) fn new(root: TypeRef, names: Vec<&'static str>) -> Self {
        let mut ty = Some(root);
        let step = |name: &&'static str| {
            let owner = ty?;
            let (id, def) = owner.field(name)?;
            ty = if let Shape::Struct(inner) = def.shape { Some(inner) } else { None };
            Some((owner, id))
        };
        Self { steps: names.iter().map(step).collect(), names }
    }

    /// Returns the names of the steps.
    pub(crate) fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Returns the definition of the field.
    pub(crate) fn def(&self) -> Option<&'static FieldDef> {
        self.steps.as_ref()?.last().and_then(|(ty, id)| ty.def(*id))
    }

    /// Returns the value in an object of the root type.
    pub(crate) fn read<'a>(&self, obj: &'a Obj) -> Option<&'a Value> {
        let mut node: Option<&Struct> = Some(obj);
        let mut value = None;
        for (ty, id) in self.steps.as_ref()? {
            value = node.filter(|node| std::ptr::eq(node.ty(), *ty))?.field(*id);
            node = value.and_then(Value::as_struct);
        }
        value
    }
}

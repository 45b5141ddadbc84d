//! Tables from protobuf's field numbers to the schema's fields, built once per type.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use oarlock_schema::{FieldDef, FieldId, TYPES, TypeRef};

/// The fields of one message, by number.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// Sorted by number, the order in which Go writes them.
    pub(super) entries: Vec<Entry>,
    /// Position in `entries` by field number, plus one; the numbers are small.
    index: Vec<u16>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: u32,
    pub(super) target: Target,
}

#[derive(Debug)]
pub(super) enum Target {
    /// A field of the struct.
    Field(Slot),
    /// A message whose fields belong to the same struct (JSON inlines it).
    Inline(Message),
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: FieldId,
    pub(super) def: &'static FieldDef,
    child: OnceLock<&'static Message>,
}

impl Slot {
    /// Returns the message of the structs that the field contains.
    pub(super) fn child(&self, ty: TypeRef) -> &'static Message {
        self.child.get_or_init(|| plan(ty))
    }
}

impl Message {
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Target> {
        let at = *self.index.get(number as usize)?;
        self.entries.get(usize::from(at.checked_sub(1)?)).map(|entry| &entry.target)
    }

    fn add(&mut self, via: &[u32], id: FieldId, def: &'static FieldDef) {
        let Some((outer, rest)) = via.split_first() else {
            let slot = Slot { id, def, child: OnceLock::new() };
            self.entries.push(Entry { number: def.number, target: Target::Field(slot) });
            return;
        };
        let known = self.entries.iter_mut().find_map(|entry| match &mut entry.target {
            Target::Inline(message) if entry.number == *outer => Some(message),
            _ => None,
        });
        if let Some(message) = known {
            message.add(rest, id, def);
            return;
        }
        let mut message = Self::default();
        message.add(rest, id, def);
        self.entries.push(Entry { number: *outer, target: Target::Inline(message) });
    }

    fn finish(&mut self) {
        self.entries.sort_by_key(|entry| entry.number);
        for (at, entry) in self.entries.iter_mut().enumerate() {
            let number = entry.number as usize;
            // Numbers of built-in types end below 200; a field with a number beyond the table is decoded as unknown.
            if number < 4096 {
                if self.index.len() <= number {
                    self.index.resize(number + 1, 0);
                }
                if let (Some(slot), Ok(place)) = (self.index.get_mut(number), u16::try_from(at + 1)) {
                    *slot = place;
                }
            }
            if let Target::Inline(message) = &mut entry.target {
                message.finish();
            }
        }
    }
}

fn build(ty: TypeRef) -> Message {
    let mut message = Message::default();
    // `kind` and `apiVersion` of a top-level type are part of the envelope, whatever their numbers in Go's TypeMeta.
    let names: Vec<&str> = ty.fields.iter().take(2).map(|def| def.name).collect();
    let outside = if ty.gvk.is_some() && names == ["kind", "apiVersion"] { 2 } else { 0 };
    for (id, def) in ty.iter().skip(outside) {
        if def.number != 0 {
            message.add(def.via, id, def);
        }
    }
    message.finish();
    message
}

static PLANS: LazyLock<HashMap<&'static str, Message>> =
    LazyLock::new(|| TYPES.iter().map(|ty| (ty.name, build(ty))).collect());

static NONE: Message = Message { entries: Vec::new(), index: Vec::new() };

/// Returns the message of a built-in type. Custom resources have no protobuf form, so theirs is empty.
pub(super) fn plan(ty: TypeRef) -> &'static Message {
    PLANS.get(ty.name).unwrap_or(&NONE)
}

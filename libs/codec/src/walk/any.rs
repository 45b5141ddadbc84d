//! Reads values without a schema: custom fields, embedded objects, patches.

use oarlock_schema::{Map, Str, Value};
use thin_vec::ThinVec;

use super::{Keys, Walk, to_str};
use crate::error::FindingKind;
use crate::frame::Frame;
use crate::json::number;
use crate::source::{Fail, Kind, Num, Source};

impl<'de, S: Source<'de>> Walk<'_, S> {
    /// Reads any value. With `raw` numbers keep their text and nothing is reported, as in Go's types that keep bytes
    /// (`RawExtension`, `JSON`); otherwise numbers pass through Go's `float64`, as in untyped objects.
    pub(crate) fn any(&mut self, frame: &Frame<'_>, raw: bool) -> Result<Value, Fail> {
        Ok(match self.src.peek()? {
            Kind::Null => {
                self.src.null()?;
                Value::Null
            }
            Kind::Bool => Value::Bool(self.src.bool()?),
            Kind::Str => Value::Str(to_str(self.src.str()?)),
            Kind::Number => match self.src.number()? {
                Num::Int(n) => Value::Int(n),
                Num::Text(text) if raw => Value::Number(to_str(text)),
                Num::Text(text) => match text.parse::<f64>() {
                    Ok(n) if n.is_finite() => number::float(n),
                    _ => {
                        self.save(|| frame.type_error(&format!("number {text}"), "float64"));
                        Value::Null
                    }
                },
            },
            Kind::List => {
                self.enter()?;
                let mut items = ThinVec::new();
                while self.src.next_item(items.is_empty())? {
                    let item = self.any(&frame.index(items.len()), raw)?;
                    items.push(item);
                }
                self.depth -= 1;
                Value::List(items)
            }
            Kind::Map => Value::Map(self.any_map(frame, raw)?),
        })
    }

    fn any_map(&mut self, frame: &Frame<'_>, raw: bool) -> Result<Map, Fail> {
        self.enter()?;
        let mut keys = Keys::default();
        let mut entries: ThinVec<(Str, Value)> = ThinVec::new();
        let mut first = true;
        while let Some(key) = self.src.next_key(first)? {
            first = false;
            if self.strict && !raw && keys.is_repeat(&entries, &key) {
                self.find(FindingKind::Duplicate, &key, frame);
            }
            let value = self.any(&frame.key(&key), raw)?;
            entries.push((to_str(key), value));
        }
        self.depth -= 1;
        Ok(Map::from_entries(entries))
    }
}

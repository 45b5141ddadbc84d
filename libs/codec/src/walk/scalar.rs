//! Reads scalars: numbers, bytes, and types whose text has a form of its own.

use std::borrow::Cow;

use oarlock_meta::{GoDuration, MicroTime, Quantity, Time};
use oarlock_schema::{Shape, Str, Value};

use super::{Walk, to_str};
use crate::base64;
use crate::frame::Frame;
use crate::json::number;
use crate::source::{Fail, Kind, Num, Source};

fn refuse(error: impl ToString) -> Fail {
    Fail::value(error.to_string())
}

impl<'de, S: Source<'de>> Walk<'_, S> {
    /// Reads a number for a field of Go's `int32`, `int64` or `float64`.
    pub(super) fn numeric(&mut self, shape: &Shape, frame: &Frame<'_>, slot: &mut Value) -> Result<(), Fail> {
        let number = self.src.number()?;
        let value = match (shape, &number) {
            (Shape::Int32, Num::Int(n)) => i32::try_from(*n).ok().map(Value::from),
            (Shape::Int64, Num::Int(n)) => Some(Value::Int(*n)),
            (Shape::Float64, Num::Int(n)) => {
                #[expect(clippy::cast_precision_loss, reason = "Go stores these fields as doubles")]
                let double = *n as f64;
                Some(number::float(double))
            }
            (Shape::Float64, Num::Text(text)) => text.parse::<f64>().ok().filter(|n| n.is_finite()).map(number::float),
            _ => None,
        };
        match value {
            Some(value) => *slot = value,
            None => {
                self.save(|| frame.type_error(&format!("number {}", text_of(number)), &super::go_type(shape)));
            }
        }
        Ok(())
    }

    /// Reads bytes: base64 text, or a list of numbers, which Go accepts as well.
    pub(super) fn bytes(&mut self, kind: Kind, frame: &Frame<'_>, slot: &mut Value) -> Result<(), Fail> {
        if kind == Kind::Str {
            let text = self.src.str()?;
            if base64::is_canonical(text.as_bytes()) {
                *slot = Value::Str(to_str(text));
                return Ok(());
            }
            match base64::decode(text.as_bytes()) {
                Ok(bytes) => *slot = Value::from(base64::encode(&bytes)),
                Err(at) => self.save(|| format!("illegal base64 data at input byte {at}")),
            }
            return Ok(());
        }
        self.enter()?;
        let mut bytes = Vec::new();
        while self.src.next_item(bytes.is_empty())? {
            let what = match self.src.peek()? {
                Kind::Number => match self.src.number()? {
                    Num::Int(n) if u8::try_from(n).is_ok() => {
                        bytes.push(u8::try_from(n).unwrap_or_default());
                        continue;
                    }
                    number => format!("number {}", text_of(number)),
                },
                kind => {
                    self.src.skip(self.depth)?;
                    if kind == Kind::Null {
                        bytes.push(0);
                        continue;
                    }
                    kind.word().to_owned()
                }
            };
            bytes.push(0);
            self.save(|| frame.type_error(&what, "uint8"));
        }
        self.depth -= 1;
        *slot = Value::from(base64::encode(&bytes));
        Ok(())
    }

    /// Reads a quantity: text or a bare number.
    pub(super) fn quantity(&mut self, kind: Kind) -> Result<Value, Fail> {
        let text = match kind {
            Kind::Str => self.src.str()?,
            Kind::Number => match self.src.number()? {
                // The longest text of a whole number fits on the stack.
                Num::Int(n) => return canonical_quantity(itoa::Buffer::new().format(n)),
                Num::Text(text) => text,
            },
            _ => self.src.raw(self.depth)?,
        };
        match Quantity::canonicalize(&text).map_err(refuse)? {
            // Keep the buffer of a text that is already canonical.
            Cow::Borrowed(same) if same.len() == text.len() => Ok(Value::Str(to_str(text))),
            canonical => Ok(Value::Str(Str::new(&canonical))),
        }
    }

    pub(super) fn int_or_string(&mut self, kind: Kind, frame: &Frame<'_>) -> Result<Value, Fail> {
        let what = match kind {
            Kind::Str => return Ok(Value::Str(to_str(self.src.str()?))),
            Kind::Number => match self.src.number()? {
                Num::Int(n) if i32::try_from(n).is_ok() => return Ok(Value::Int(n)),
                number => format!("number {}", text_of(number)),
            },
            _ => kind.word().to_owned(),
        };
        Err(refuse(frame.type_error(&what, "int32")))
    }

    /// Reads a time, micro-time or duration.
    pub(super) fn moment(&mut self, shape: &Shape, kind: Kind, frame: &Frame<'_>) -> Result<Value, Fail> {
        if kind != Kind::Str {
            return Err(refuse(frame.type_error(kind.word(), "string")));
        }
        let text = self.src.str()?;
        canonical_moment(shape, text)
    }
}

fn canonical_quantity(text: &str) -> Result<Value, Fail> {
    Ok(Value::Str(Str::new(Quantity::canonicalize(text).map_err(refuse)?)))
}

fn canonical_moment(shape: &Shape, text: Cow<'_, str>) -> Result<Value, Fail> {
    Ok(match shape {
        Shape::Time => {
            let time = Time::parse(&text).map_err(refuse)?;
            if time.is_zero() {
                Value::Null
            } else if is_plain_time(&text) {
                Value::Str(to_str(text))
            } else {
                Value::from(time.to_string())
            }
        }
        Shape::MicroTime => {
            let time = MicroTime::parse(&text).map_err(refuse)?;
            if time.is_zero() { Value::Null } else { Value::from(time.to_string()) }
        }
        _ => Value::from(GoDuration::parse(&text).map_err(refuse)?.to_string()),
    })
}

/// Whether a valid time is already canonical: whole seconds in UTC.
fn is_plain_time(text: &str) -> bool {
    text.len() == 20 && text.ends_with('Z')
}

fn text_of(number: Num<'_>) -> Cow<'_, str> {
    match number {
        Num::Int(n) => Cow::Owned(n.to_string()),
        Num::Text(text) => text,
    }
}

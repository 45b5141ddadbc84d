//! Parses constant defaults, which the schema data holds as JSON texts.

use oarlock_schema::{Map, Shape, Struct, Value};

/// Returns the value of a constant default of a field with this shape; `None` when the text does not fit the shape.
pub(crate) fn parse(text: &str, shape: &Shape) -> Option<Value> {
    convert(&serde_json::from_str(text).ok()?, shape)
}

fn convert(json: &serde_json::Value, shape: &Shape) -> Option<Value> {
    use serde_json::Value as Json;
    Some(match (json, shape) {
        (Json::Bool(b), _) => Value::Bool(*b),
        (Json::Number(n), _) => Value::Int(n.as_i64()?),
        (Json::String(s), _) => Value::from(s.as_str()),
        (Json::Array(items), Shape::List(inner)) => {
            Value::List(items.iter().map(|item| convert(item, inner)).collect::<Option<_>>()?)
        }
        (Json::Object(fields), Shape::Struct(ty)) => {
            let mut node = Struct::zero(ty);
            for (name, value) in fields {
                let (id, def) = ty.field(name)?;
                node.set(id, convert(value, &def.shape)?);
            }
            Value::Struct(node)
        }
        (Json::Object(fields), Shape::Map(inner)) => {
            let entries: Option<Vec<(&str, Value)>> =
                fields.iter().map(|(k, v)| Some((k.as_str(), convert(v, inner)?))).collect();
            Value::Map(entries?.into_iter().collect::<Map>())
        }
        _ => return None,
    })
}

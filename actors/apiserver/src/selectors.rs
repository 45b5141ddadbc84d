//! LabelSelectors of objects as the selectors of requests.

use oarlock_meta::selector::{LabelRequirement, Operator};
use oarlock_meta::{LabelSelector, Status};
use oarlock_schema::{Struct, Value};

/// Reads a `metav1.LabelSelector`; an empty one selects everything.
///
/// # Errors
/// 400 for an operator that does not exist or values that do not fit it.
pub(crate) fn from_struct(node: &Struct) -> Result<LabelSelector, Status> {
    let path = oarlock_meta::Path::ROOT;
    let mut requirements = Vec::new();
    let bad = |e: &dyn std::fmt::Display| Status::bad_request(e.to_string());
    for (key, value) in node.get("matchLabels").and_then(Value::as_map).into_iter().flat_map(oarlock_schema::Map::iter)
    {
        let value = value.as_str().unwrap_or("");
        requirements.push(LabelRequirement::new(key, Operator::In, [value], &path).map_err(|e| bad(&e))?);
    }
    for expression in node.get("matchExpressions").map_or(&[][..], Value::items).iter().filter_map(Value::as_struct) {
        let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or("");
        let operator = match text("operator") {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(Status::bad_request(format!("\"{other}\" is not a valid label selector operator"))),
        };
        let values = expression.get("values").map_or(&[][..], Value::items).iter().filter_map(Value::as_str);
        requirements.push(LabelRequirement::new(text("key"), operator, values, &path).map_err(|e| bad(&e))?);
    }
    Ok(LabelSelector::new(requirements))
}

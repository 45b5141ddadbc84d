//! TaintNodesByCondition: a new node is tainted as not ready, so that it takes no pods until it has been seen ready.

use async_trait::async_trait;
use oarlock_meta::Status;
use oarlock_registry::Reader;
use oarlock_schema::Value;

use super::{list_in, node};
use crate::attributes::{Attributes, Operation};
use crate::stage::{AdmissionStage, Half};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The TaintNodesByCondition stage.
#[derive(Debug)]
pub struct TaintNodesByCondition;

/// Creates the stage TaintNodesByCondition.
#[must_use]
pub fn make(_reader: &Reader) -> Box<dyn AdmissionStage> {
    Box::new(TaintNodesByCondition)
}

#[async_trait]
impl AdmissionStage for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn takes_part(&self, half: Half, attributes: &Attributes<'_>) -> bool {
        half == Half::Mutating && attributes.is("", "nodes")
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let Some(object) = attributes.object.as_deref_mut() else { return Ok(()) };
        let Some(spec) = object.ty().field("spec").and_then(|(id, _)| object.struct_entry(id)) else { return Ok(()) };
        let Some(taints) = list_in(spec, "taints") else { return Ok(()) };
        let is = |t: &Value, field: &str, text: &str| t.get(field).and_then(Value::as_str) == Some(text);
        if taints.iter().any(|t| is(t, "key", NOT_READY) && is(t, "effect", "NoSchedule")) {
            return Ok(());
        }
        if let Some(mut taint) = node("core/v1.Taint") {
            taint.set_name("key", NOT_READY);
            taint.set_name("effect", "NoSchedule");
            taints.push(Value::Struct(taint));
        }
        Ok(())
    }
}

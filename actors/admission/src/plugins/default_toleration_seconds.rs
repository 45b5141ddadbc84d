//! DefaultTolerationSeconds: by default pods stay five minutes on a node that is not ready or unreachable.

use async_trait::async_trait;
use oarlock_meta::Status;
use oarlock_registry::Reader;
use oarlock_schema::views::core_v1::{Pod, PodMut, TolerationMut};
use oarlock_schema::{Struct, Value};

use super::node;
use crate::attributes::{Attributes, Operation};
use crate::stage::{AdmissionStage, Half};

const KEYS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const TOLERATION_SECONDS: i64 = 300;

/// The DefaultTolerationSeconds stage.
#[derive(Debug)]
pub struct DefaultTolerationSeconds {
    /// The tolerations, by key; created once.
    defaults: Vec<(&'static str, Struct)>,
}

/// Creates the stage DefaultTolerationSeconds.
#[must_use]
pub fn make(_reader: &Reader) -> Box<dyn AdmissionStage> {
    let defaults = KEYS.into_iter().filter_map(|key| Some((key, toleration(key)?))).collect();
    Box::new(DefaultTolerationSeconds { defaults })
}

#[async_trait]
impl AdmissionStage for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn takes_part(&self, half: Half, _attributes: &Attributes<'_>) -> bool {
        half == Half::Mutating
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let Some(object) = attributes.object.as_deref_mut() else { return Ok(()) };
        // Decided on the client's tolerations: when both keys are missing, the first added one does not count for the second.
        let Some(pod) = object.view::<Pod<'_>>() else { return Ok(()) };
        let missing: Vec<Value> = self
            .defaults
            .iter()
            .filter(|(key, _)| !tolerates(pod, key))
            .map(|(_, toleration)| Value::Struct(toleration.clone()))
            .collect();
        if !missing.is_empty() {
            PodMut::new(object).spec_mut().tolerations_mut().extend(missing);
        }
        Ok(())
    }
}

fn toleration(key: &str) -> Option<Struct> {
    let mut toleration = node("core/v1.Toleration")?;
    let mut view = TolerationMut::new(&mut toleration);
    view.set_key(key).set_operator("Exists").set_effect("NoExecute").set_toleration_seconds(TOLERATION_SECONDS);
    Some(toleration)
}

fn tolerates(pod: Pod<'_>, key: &str) -> bool {
    pod.spec()
        .tolerations()
        .iter()
        .any(|t| (t.key() == key || t.key().is_empty()) && (t.effect() == "NoExecute" || t.effect().is_empty()))
}

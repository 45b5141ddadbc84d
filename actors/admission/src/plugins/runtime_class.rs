//! RuntimeClass: a pod's class must exist; its overhead and scheduling constraints are copied to the pod.

use async_trait::async_trait;
use oarlock_meta::Status;
use oarlock_registry::Reader;
use oarlock_schema::views::core_v1::{Pod, PodMut};
use oarlock_schema::{FromValue, Map, Obj, Value};

use super::{list_in, row};
use crate::attributes::{Attributes, Operation};
use crate::stage::AdmissionStage;
use oarlock_pods::Amounts;

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// The RuntimeClass stage.
#[derive(Debug)]
pub struct RuntimeClass {
    reader: Reader,
}

/// Creates the stage RuntimeClass.
#[must_use]
pub fn make(reader: &Reader) -> Box<dyn AdmissionStage> {
    Box::new(RuntimeClass { reader: reader.clone() })
}

#[async_trait]
impl AdmissionStage for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let Some(class) = self.class(attributes)? else { return Ok(()) };
        let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
        complete(pod, &class).map_err(|why| attributes.forbidden(why))
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let class = self.class(attributes)?;
        let defined = class.as_ref().and_then(|c| c.at(&["overhead", "podFixed"]));
        let Some(pod) = attributes.object.as_deref().and_then(|o| o.view::<Pod<'_>>()) else { return Ok(()) };
        let given = Amounts::of(pod.spec().overhead());
        match defined {
            Some(defined) if given != amounts(defined) => Err(attributes.forbidden(MISMATCH)),
            None if !given.is_empty() => Err(attributes
                .forbidden("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")),
            _ => Ok(()),
        }
    }
}

impl RuntimeClass {
    /// Returns the pod's class.
    fn class(&self, attributes: &Attributes<'_>) -> Result<Option<Obj>, Status> {
        let pod = attributes.object.as_deref().and_then(|o| o.view::<Pod<'_>>());
        let Some(name) = pod.and_then(|p| p.spec().runtime_class_name()) else { return Ok(None) };
        let class = row("node.k8s.io", "v1", "runtimeclasses").and_then(|classes| self.reader.get(classes, "", name));
        class.map(Some).ok_or_else(|| attributes.forbidden(format!("pod rejected: RuntimeClass \"{name}\" not found")))
    }
}

fn amounts(map: &Value) -> Amounts {
    Amounts::of(FromValue::from_value(map))
}

fn complete(pod: &mut Obj, class: &Obj) -> Result<(), String> {
    if let Some(defined) = class.at(&["overhead", "podFixed"]) {
        if pod.at(&["spec", "overhead"]).is_some_and(|given| amounts(given) != amounts(defined)) {
            return Err(MISMATCH.to_owned());
        }
        pod.set_at(&["spec", "overhead"], defined.clone());
    }
    schedule(pod, class)
}

/// Merges the node selector and tolerations of the class into the pod.
fn schedule(pod: &mut Obj, class: &Obj) -> Result<(), String> {
    let mut view = PodMut::new(pod);
    if let Some(Value::Map(selector)) = class.at(&["scheduling", "nodeSelector"]) {
        let mut spec = view.spec_mut();
        let own: &mut Map = spec.node_selector_mut();
        for (key, value) in selector.iter() {
            if let Some(have) = own.get(key).filter(|have| *have != value) {
                let (theirs, ours) = (value.as_str().unwrap_or(""), have.as_str().unwrap_or(""));
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {theirs}; pod.spec.nodeSelector[{key}] = {ours}"
                ));
            }
            own.insert(key, value.clone());
        }
    }
    let extra = class.at(&["scheduling", "tolerations"]).map_or(&[][..], Value::items);
    let mut spec = view.spec_mut();
    if let Some(tolerations) = list_in(spec.raw_mut(), "tolerations") {
        let new: Vec<Value> = extra.iter().filter(|t| !tolerations.contains(t)).cloned().collect();
        tolerations.extend(new);
    }
    Ok(())
}

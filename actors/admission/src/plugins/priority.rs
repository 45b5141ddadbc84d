//! Priority: resolves a pod's priority class to a number, and allows only one global default.

use std::sync::Arc;

use async_trait::async_trait;
use compact_str::CompactString;
use oarlock_meta::Status;
use oarlock_registry::{Reader, key};
use oarlock_schema::views::core_v1::{Pod, PodMut};
use oarlock_schema::views::scheduling_v1::PriorityClass;
use oarlock_schema::{Obj, Resource};

use super::row;
use crate::attributes::{Attributes, Operation};
use crate::cache::Cache;
use crate::stage::AdmissionStage;

/// The preemption policy of pods and classes without one.
const PREEMPT: &str = "PreemptLowerPriority";

/// The fields of a PriorityClass that pods take over.
#[derive(Debug)]
struct Class {
    name: CompactString,
    value: i64,
    policy: CompactString,
    default: bool,
}

impl Class {
    fn of(obj: &Obj) -> Self {
        let view = obj.view::<PriorityClass<'_>>();
        Self {
            name: obj.name().into(),
            value: view.map_or(0, PriorityClass::value),
            policy: view.and_then(PriorityClass::preemption_policy).unwrap_or(PREEMPT).into(),
            default: view.is_some_and(PriorityClass::global_default),
        }
    }
}

/// The Priority stage.
#[derive(Debug)]
pub struct Priority {
    reader: Reader,
    classes: Option<&'static Resource>,
    known: Cache<Class>,
}

/// Creates the stage Priority.
#[must_use]
pub fn make(reader: &Reader) -> Box<dyn AdmissionStage> {
    let classes = row("scheduling.k8s.io", "v1", "priorityclasses");
    Box::new(Priority { reader: reader.clone(), classes, known: Cache::new(Class::of) })
}

#[async_trait]
impl AdmissionStage for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let old = attributes.old;
        let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
        if attributes.operation == Operation::Update {
            keep(pod, old);
            return Ok(());
        }
        self.resolve(pod).map_err(|why| attributes.forbidden(why))
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("scheduling.k8s.io", "priorityclasses") {
            return Ok(());
        }
        let Some(new) = attributes.object.as_deref() else { return Ok(()) };
        if !new.view::<PriorityClass<'_>>().is_some_and(PriorityClass::global_default) {
            return Ok(());
        }
        let other = self.default_class().filter(|c| attributes.operation == Operation::Create || c.name != new.name());
        other.map_or(Ok(()), |other| {
            let why = format!("PriorityClass {} is already marked as default. Only one default can exist", other.name);
            Err(attributes.forbidden(why))
        })
    }
}

impl Priority {
    /// Sets the numbers of the pod's class, or of the default one; numbers that the pod already has must be equal.
    fn resolve(&self, pod: &mut Obj) -> Result<(), String> {
        let Some(view) = pod.view::<Pod<'_>>().map(Pod::spec) else { return Ok(()) };
        let name = view.priority_class_name();
        let class = match name {
            "" => self.default_class(),
            name => Some(self.class(name).ok_or_else(|| format!("no PriorityClass with name {name} was found"))?),
        };
        let (value, policy) = class.as_ref().map_or((0, PREEMPT), |c| (c.value, c.policy.as_str()));
        if let Some(asked) = view.priority().filter(|asked| *asked != value) {
            return Err(format!(
                "the integer value of priority ({asked}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
            ));
        }
        if let Some(asked) = view.preemption_policy().filter(|asked| *asked != policy) {
            return Err(format!(
                "the string value of PreemptionPolicy ({asked}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            ));
        }
        let mut pod = PodMut::new(pod);
        let mut spec = pod.spec_mut();
        if let Some(class) = &class {
            spec.set_priority_class_name(class.name.as_str());
        }
        spec.set_priority(value).set_preemption_policy(policy);
        Ok(())
    }

    fn class(&self, name: &str) -> Option<Arc<Class>> {
        let classes = self.classes?;
        self.known.get(classes, self.reader.entry(classes, "", name)?.as_ref())
    }

    /// Returns the global default class. If a race has made several, the one with the lowest value.
    fn default_class(&self) -> Option<Arc<Class>> {
        let classes = self.classes?;
        let all = self.reader.view().list(key::prefix(classes)?);
        all.iter().filter_map(|entry| self.known.get(classes, entry)).filter(|c| c.default).min_by_key(|c| c.value)
    }
}

/// Keeps the priority when an update leaves it out.
fn keep(pod: &mut Obj, old: Option<&Obj>) {
    let Some(before) = old.and_then(|o| o.view::<Pod<'_>>()) else { return };
    let mut pod = PodMut::new(pod);
    let (has_priority, has_policy) =
        (pod.read().spec().priority().is_some(), pod.read().spec().preemption_policy().is_some());
    let mut spec = pod.spec_mut();
    if let Some(value) = before.spec().priority().filter(|_| !has_priority) {
        spec.set_priority(value);
    }
    if let Some(policy) = before.spec().preemption_policy().filter(|_| !has_policy) {
        spec.set_preemption_policy(policy);
    }
}

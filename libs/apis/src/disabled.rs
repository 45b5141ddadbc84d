//! Drops fields of disabled feature gates: the fields stay in the schema and are removed on write, unless the stored object has them already (upstream: the
//! `dropDisabledFields` functions of the strategies). The schema data names the gate of a field; `GATE_EXCEPTIONS` lists the exceptions.

use std::sync::LazyLock;

use oarlock_schema::{FeatureGates, FieldDef, FieldId, Obj, Struct, TYPES, TypeRef, Value};

use crate::by_address::{ByAddress, address};

/// Fields for which upstream's code checks other gates than the field's tag says, with the gates that the code requires; an empty list means that the code
/// never drops the field. Each row was found by writing the field to a live server and reading the object back.
pub(crate) const GATE_EXCEPTIONS: &[(&str, &str, &[&str])] = &[
    // The gate does not control the field but its allowed values; validation refuses the others.
    ("autoscaling/v1.HorizontalPodAutoscalerSpec", "minReplicas", &[]),
    ("autoscaling/v2.HorizontalPodAutoscalerSpec", "minReplicas", &[]),
    ("core/v1.PersistentVolumeSpec", "nodeAffinity", &[]),
    ("core/v1.Toleration", "operator", &[]),
    ("resource/v1.CELDeviceSelector", "expression", &[]),
    // Upstream drops the field with the gate of in-place resize, which is locked to on.
    ("core/v1.ContainerStatus", "allocatedResources", &[]),
    // Upstream keeps these status fields whatever the gate: with the gate off, only other fields of the feature are dropped, such as the signal in a
    // container's `lifecycle`.
    ("core/v1.ContainerStatus", "stopSignal", &[]),
    ("resource/v1.AllocationResult", "allocationTimestamp", &[]),
    ("resource/v1.DeviceRequestAllocationResult", "tolerations", &[]),
    ("apiextensions/v1.CustomResourceDefinitionStatus", "observedGeneration", &[]),
    ("apiextensions/v1.CustomResourceDefinitionCondition", "observedGeneration", &[]),
    // Upstream drops the field only when recursive read-only mounts are disabled too, whose gate is locked to on.
    ("core/v1.NodeStatus", "runtimeHandlers", &[]),
    ("core/v1.NodeRuntimeHandlerFeatures", "userNamespaces", &[]),
    // The field is part of a struct that is dropped as a whole.
    ("core/v1.FileKeySelector", "key", &[]),
    // Upstream drops references to other namespaces only (see DROPPED_WITH_FIELD).
    ("core/v1.PersistentVolumeClaimSpec", "dataSourceRef", &[]),
    // The schema has no tag for the field, or one that names no gate.
    ("core/v1.Lifecycle", "stopSignal", &["ContainerStopSignals"]),
    ("core/v1.VolumeProjection", "podCertificate", &["PodCertificateRequest"]),
];

/// Types whose struct is dropped together with the field: always, or if no other field is set.
const DROPPED_WITH_FIELD: &[(&str, Along)] =
    &[("core/v1.TypedObjectReference", Along::Always), ("core/v1.Lifecycle", Along::WhenEmpty)];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Along {
    Always,
    WhenEmpty,
}

/// The fields of a type that a set of gates disables.
#[derive(Clone, Default, Debug)]
struct Off {
    fields: Vec<FieldId>,
    /// The fields whose values have disabled fields, or have values that have.
    below: Vec<FieldId>,
    along: Option<Along>,
}

/// The fields of all types that a set of gates disables. Computed once per server.
#[derive(Clone, Debug)]
pub struct DisabledFields {
    /// The types that have disabled fields, themselves or below.
    types: ByAddress<Off>,
}

impl Default for DisabledFields {
    fn default() -> Self {
        static DEFAULT: LazyLock<DisabledFields> = LazyLock::new(|| DisabledFields::of(&FeatureGates::default()));
        DEFAULT.clone()
    }
}

/// Returns the gates of a field, all of which must be on.
fn gates_of(ty: TypeRef, field: &str) -> Vec<&'static str> {
    let otherwise = GATE_EXCEPTIONS.iter().find(|(name, of, _)| *name == ty.name && *of == field);
    match otherwise {
        Some((_, _, gates)) => gates.to_vec(),
        None => {
            let tag = ty.field(field).and_then(|(_, def)| def.gate).unwrap_or("");
            tag.split(',').filter(|gate| !gate.is_empty()).collect()
        }
    }
}

impl DisabledFields {
    /// Computes the fields that these gates disable.
    #[must_use]
    pub fn of(gates: &FeatureGates) -> Self {
        let own = |ty: TypeRef| {
            let off = |name: &str| gates_of(ty, name).iter().any(|gate| !gates.enabled(gate));
            let fields: Vec<FieldId> = ty.iter().filter(|(_, def)| off(def.name)).map(|(id, _)| id).collect();
            let along = DROPPED_WITH_FIELD.iter().find(|(name, _)| *name == ty.name).map(|(_, along)| *along);
            Off { fields, below: Vec::new(), along }
        };
        let with_own = |ty: &TypeRef| Some((address(ty), own(*ty))).filter(|(_, off)| !off.fields.is_empty());
        let mut types: ByAddress<Off> = TYPES.iter().filter_map(with_own).collect();
        // What is below is computed as a fixed point, because types may be recursive.
        loop {
            let before = types.len();
            for ty in TYPES {
                let is_known =
                    |field: &FieldDef| field.shape.element_type().is_some_and(|ty| types.contains_key(&address(ty)));
                let below: Vec<FieldId> = ty.iter().filter(|(_, field)| is_known(field)).map(|(id, _)| id).collect();
                if !below.is_empty() {
                    types.entry(address(ty)).or_insert_with(|| own(ty)).below = below;
                }
            }
            if types.len() == before {
                return Self { types };
            }
        }
    }

    /// Whether a gate controls a field. Gates have no other effect in Oarlock.
    #[must_use]
    pub fn governs(gate: &str) -> bool {
        TYPES.iter().any(|ty| ty.fields.iter().any(|field| gates_of(ty, field.name).contains(&gate)))
    }

    /// Drops the fields whose gates are off, before validation. As upstream, a field that the stored object has anywhere may stay everywhere.
    pub fn drop(&self, new: &mut Obj, old: Option<&Obj>) {
        let mut in_use = Vec::new();
        if let Some(old) = old {
            self.collect(old, &mut in_use);
        }
        self.drop_in(new, &in_use);
    }

    fn off(&self, ty: TypeRef) -> Option<&Off> {
        self.types.get(&address(ty))
    }

    fn collect(&self, node: &Struct, used: &mut Vec<Used>) {
        let Some(off) = self.off(node.ty()) else { return };
        for id in off.fields.iter().filter(|id| set(node, **id)) {
            if !used.contains(&(node.ty(), *id)) {
                used.push((node.ty(), *id));
            }
        }
        for value in off.below.iter().filter_map(|id| node.field(*id)) {
            self.collect_value(value, used);
        }
    }

    fn collect_value(&self, value: &Value, used: &mut Vec<Used>) {
        match value {
            Value::Struct(inner) => self.collect(inner, used),
            Value::List(items) => items.iter().for_each(|item| self.collect_value(item, used)),
            Value::Map(map) => map.iter().for_each(|(_, item)| self.collect_value(item, used)),
            _ => {}
        }
    }

    /// Drops the fields in a struct; returns whether the struct itself must be dropped.
    fn drop_in(&self, node: &mut Struct, in_use: &[Used]) -> bool {
        let Some(off) = self.off(node.ty()) else { return false };
        let mut dropped = false;
        for id in &off.fields {
            if set(node, *id) && !in_use.contains(&(node.ty(), *id)) {
                node.remove(*id);
                dropped = true;
            }
        }
        for id in &off.below {
            if node.field_mut(*id).is_some_and(|value| self.drop_value(value, in_use)) {
                node.remove(*id);
            }
        }
        dropped
            && match off.along {
                Some(Along::Always) => true,
                Some(Along::WhenEmpty) => node.is_empty(),
                None => false,
            }
    }

    fn drop_value(&self, value: &mut Value, in_use: &[Used]) -> bool {
        match value {
            Value::Struct(inner) => return self.drop_in(inner, in_use),
            // A struct that is an item of a list or map stays, even if it is empty.
            Value::List(items) => {
                for item in items.iter_mut() {
                    self.drop_value(item, in_use);
                }
            }
            Value::Map(map) => {
                for (_, item) in map.iter_mut() {
                    self.drop_value(item, in_use);
                }
            }
            _ => {}
        }
        false
    }
}

type Used = (TypeRef, FieldId);

fn set(node: &Struct, id: FieldId) -> bool {
    node.field(id).is_some_and(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(strategy: bool) -> Obj {
        let resource = oarlock_schema::resource("coordination.k8s.io", "v1", "leases").unwrap();
        let mut lease = Obj::new(resource.ty);
        lease.set_at(&["spec", "holderIdentity"], "me");
        if strategy {
            lease.set_at(&["spec", "strategy"], "OldestEmulationVersion");
        }
        lease
    }

    #[test]
    fn drops_a_field_whose_gate_is_off() {
        let disabled = DisabledFields::default();
        let mut new = lease(true);
        disabled.drop(&mut new, None);
        assert_eq!(new, lease(false));
        let mut new = lease(true);
        disabled.drop(&mut new, Some(&lease(false)));
        assert_eq!(new, lease(false));
    }

    #[test]
    fn keeps_what_the_stored_object_has() {
        let mut new = lease(true);
        DisabledFields::default().drop(&mut new, Some(&lease(true)));
        assert_eq!(new, lease(true));
    }

    #[test]
    fn keeps_a_field_whose_gate_somebody_opened() {
        let gates = "CoordinatedLeaderElection=true".parse().unwrap();
        let mut new = lease(true);
        DisabledFields::of(&gates).drop(&mut new, None);
        assert_eq!(new, lease(true));
    }

    #[test]
    fn drops_a_field_whose_gate_somebody_closed() {
        let resource = oarlock_schema::resource("", "v1", "pods").unwrap();
        let mut pod = Obj::new(resource.ty);
        pod.set_at(&["spec", "hostnameOverride"], "h");
        let whole = pod.clone();
        DisabledFields::default().drop(&mut pod, None);
        assert_eq!(pod, whole);
        DisabledFields::of(&"HostnameOverride=false".parse().unwrap()).drop(&mut pod, None);
        assert!(pod.at(&["spec", "hostnameOverride"]).is_none());
    }

    /// A tag that names no gate of this version means a permanent feature; a new one needs a review, and perhaps a row above.
    #[test]
    fn tags_name_gates() {
        let known = |gate: &&str| oarlock_schema::gates::GATES.iter().any(|one| one.name == *gate);
        let mut strange: Vec<&str> = TYPES
            .iter()
            .flat_map(|ty| ty.fields.iter().flat_map(|field| gates_of(ty, field.name)))
            .filter(|gate| !known(gate))
            .collect();
        strange.sort_unstable();
        strange.dedup();
        assert_eq!(strange, ["CSIStorageCapacity"]);
    }

    #[test]
    fn says_which_gates_decide_about_fields() {
        assert!(DisabledFields::governs("HostnameOverride") && DisabledFields::governs("PodCertificateRequest"));
        assert!(!DisabledFields::governs("HPAScaleToZero") && !DisabledFields::governs("APIResponseCompression"));
    }

    #[test]
    fn flags_read_as_upstream_reads_them() {
        let gates: FeatureGates =
            "AllAlpha=true,TaintTolerationComparisonOperators=false,HostnameOverride=f".parse().unwrap();
        assert!(gates.enabled("GenericWorkload") && !gates.enabled("TaintTolerationComparisonOperators"));
        assert!(!gates.enabled("HostnameOverride") && gates.enabled("EnvFiles"));
        for (text, why) in [
            ("Nonsense=true", "unrecognized feature gate: Nonsense"),
            ("HostnameOverride", "missing bool value for HostnameOverride"),
            (
                "HostnameOverride=maybe",
                "invalid value of HostnameOverride=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                "InPlacePodVerticalScaling=false",
                "cannot set feature gate InPlacePodVerticalScaling to false, feature is locked to true",
            ),
        ] {
            assert_eq!(text.parse::<FeatureGates>().unwrap_err().to_string(), why);
        }
        for text in ["", "InPlacePodVerticalScaling=true,kube:EnvFiles=1"] {
            assert_eq!(text.parse::<FeatureGates>(), Ok(FeatureGates::default()));
        }
    }
}

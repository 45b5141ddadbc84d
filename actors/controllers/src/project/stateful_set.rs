//! The projection of StatefulSets.

use oarlock_informer::{Project, ResourceName};
use oarlock_meta::LabelSelector;
use oarlock_schema::views::{View, apps_v1};
use oarlock_schema::{Obj, Str};
use oarlock_workloads::Fingerprint;

use super::deployment::Amount;
use super::selector;

/// How the pods of a StatefulSet come to the current template (`spec.updateStrategy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// Somebody else deletes the pods.
    OnDelete,
    /// The controller deletes the pods, highest ordinal first.
    Rolling {
        /// The number of lowest ordinals that keep the current revision; `None` without parameters of the strategy.
        partition: Option<i64>,
        /// The most unavailable pods.
        unavailable: Amount,
    },
}

impl Default for Replacement {
    fn default() -> Self {
        Self::Rolling { partition: None, unavailable: Amount::Count(1) }
    }
}

/// Which claims of a StatefulSet are deleted (`spec.persistentVolumeClaimRetentionPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClaimDeletion {
    /// Whether claims are deleted with the set (`whenDeleted`).
    pub(crate) with_set: bool,
    /// Whether claims are deleted with pods that the set has too many (`whenScaled`).
    pub(crate) when_scaled: bool,
}

/// The projection of a StatefulSet's `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatefulSetState {
    /// `observedGeneration`.
    pub(crate) observed: i64,
    /// Pods.
    pub(crate) replicas: i64,
    /// Pods that run and are ready.
    pub(crate) ready: i64,
    /// Pods that have been ready for long enough.
    pub(crate) available: i64,
    /// Pods of the current revision that are not being deleted.
    pub(crate) current: i64,
    /// Pods of the update revision that are not being deleted.
    pub(crate) updated: i64,
    /// Name of the revision that the set had before its last change.
    pub(crate) current_revision: Str,
    /// Name of the revision of the set's template.
    pub(crate) update_revision: Str,
    /// How often the name of a new revision was in use already (`collisionCount`).
    pub(crate) collisions: Option<i64>,
}

/// The projection of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatefulSet {
    /// `spec.replicas`.
    pub(crate) replicas: i64,
    /// `spec.ordinals.start`: the lowest ordinal.
    pub(crate) start: i64,
    /// `spec.selector`; `None` selects nothing.
    pub(crate) selector: Option<LabelSelector>,
    /// Whether pods are created and deleted all at once (`spec.podManagementPolicy`).
    pub(crate) parallel: bool,
    /// `spec.updateStrategy`.
    pub(crate) replacement: Replacement,
    /// `spec.minReadySeconds`.
    pub(crate) min_ready: i64,
    /// `spec.revisionHistoryLimit`; `None` keeps everything.
    pub(crate) history: Option<usize>,
    /// Names of `spec.volumeClaimTemplates`.
    pub(crate) claims: Box<[Str]>,
    /// `spec.persistentVolumeClaimRetentionPolicy`.
    pub(crate) deletes: ClaimDeletion,
    /// The data of the template's revision.
    pub(crate) data: Fingerprint,
    /// `status`.
    pub(crate) status: StatefulSetState,
}

impl Project for StatefulSet {
    const RESOURCE: ResourceName = ResourceName::new("apps", "v1", "statefulsets");

    fn project(obj: &Obj) -> Self {
        let Some(view) = obj.view::<apps_v1::StatefulSet<'_>>() else { return Self::default() };
        let spec = view.spec();
        let deletes = spec.persistent_volume_claim_retention_policy().map(|policy| ClaimDeletion {
            with_set: policy.when_deleted() == "Delete",
            when_scaled: policy.when_scaled() == "Delete",
        });
        Self {
            replicas: spec.replicas().unwrap_or(1),
            start: spec.ordinals().map_or(0, |ordinals| ordinals.start()),
            selector: selector(spec.selector()),
            parallel: spec.pod_management_policy() == "Parallel",
            replacement: replacement(spec.update_strategy()),
            min_ready: spec.min_ready_seconds(),
            history: spec.revision_history_limit().and_then(|limit| usize::try_from(limit).ok()),
            claims: spec.volume_claim_templates().iter().map(|claim| claim.metadata().name().into()).collect(),
            deletes: deletes.unwrap_or_default(),
            data: spec.template().node().map(Fingerprint::of_template).unwrap_or_default(),
            status: state(view.status()),
        }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

fn replacement(strategy: apps_v1::StatefulSetUpdateStrategy<'_>) -> Replacement {
    if strategy.type_() == "OnDelete" {
        return Replacement::OnDelete;
    }
    let rolling = strategy.rolling_update();
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable());
    Replacement::Rolling {
        partition: rolling.map(|rolling| rolling.partition().unwrap_or(0)),
        unavailable: unavailable.map_or(Amount::Count(1), Amount::read),
    }
}

fn state(status: apps_v1::StatefulSetStatus<'_>) -> StatefulSetState {
    StatefulSetState {
        observed: status.observed_generation(),
        replicas: status.replicas(),
        ready: status.ready_replicas(),
        available: status.available_replicas(),
        current: status.current_replicas(),
        updated: status.updated_replicas(),
        current_revision: status.current_revision().into(),
        update_revision: status.update_revision().into(),
        collisions: status.collision_count(),
    }
}

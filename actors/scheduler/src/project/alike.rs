//! Compares and derives pods that differ only in their identity: pods of one burst usually do, so one pod and the identities describe all of them.

use std::sync::Arc;

use oarlock_informer::{Item, Key};
use oarlock_meta::Revision;

use crate::intern::Sym;
use crate::model::PodInfo;

use super::pod::PodView;
use super::same::same_but_names;

/// The fields in which otherwise equal pods differ.
#[derive(Debug)]
pub(crate) struct PodIdentity {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) revision: Revision,
    pub(crate) node: Option<Sym>,
}

/// Whether two pods differ only in the fields of [`PodIdentity`].
pub(crate) fn alike(a: &Item<PodView>, b: &Item<PodView>) -> bool {
    let (one, other) = (&*a.value.info, &*b.value.info);
    one.node.is_some() == other.node.is_some()
        && one.generation == other.generation
        && same_but_names(one, other)
        && (a.value.ended, &a.value.scheduled_condition) == (b.value.ended, &b.value.scheduled_condition)
        && a.meta.alike(&b.meta)
}

/// Returns the pod that equals `sample` except for `identity`.
pub(crate) fn like(sample: &Item<PodView>, identity: PodIdentity) -> Item<PodView> {
    let PodIdentity { key, uid, revision, node } = identity;
    let PodView { info, ended, scheduled_condition } = &sample.value;
    let (name, version) = (Arc::from(key.name.as_str()), revision.get());
    let info = PodInfo { uid: Arc::from(uid.as_str()), name, node, version, ..(**info).clone() };
    let value = PodView { info: Arc::new(info), ended: *ended, scheduled_condition: scheduled_condition.clone() };
    Item { meta: sample.meta.like(key, uid.into(), revision), value }
}

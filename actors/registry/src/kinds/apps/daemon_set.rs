//! DaemonSets: an annotation counts the changes of the template (upstream `spec.templateGeneration` of the extensions API, an annotation in apps/v1).

use oarlock_apis::apps::daemon_set::TEMPLATE_COUNT;
use oarlock_schema::Obj;

use crate::fields;
use crate::kind::{Request, Strategy};

/// Strategy of DaemonSets.
#[derive(Debug)]
pub struct DaemonSetStrategy;

impl Strategy for DaemonSetStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        fields::reset_for_create(request.resource, obj);
        set(obj, count(obj).unwrap_or(0).max(1));
    }

    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        fields::reset_for_update(request.resource, request.endpoint, new, old);
        let template = ["spec", "template"];
        let before = count(old).unwrap_or(0);
        set(new, if new.at(&template) == old.at(&template) { before } else { before + 1 });
    }
}

fn count(obj: &Obj) -> Option<i64> {
    obj.meta().annotations().get(TEMPLATE_COUNT)?.parse().ok()
}

fn set(obj: &mut Obj, count: i64) {
    if let Some(mut meta) = obj.meta_mut() {
        meta.annotations_mut().insert(TEMPLATE_COUNT, count.to_string());
    }
}

//! The quota usage of PersistentVolumeClaims: number and storage, in total and by storage class and attributes class.

use compact_str::format_compact;
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::PersistentVolumeClaim;

use super::usage::whole;
use oarlock_pods::{Amounts, ResourceList};

const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
const CLASS: &str = ".storageclass.storage.k8s.io/";
const CLASS_BETA: &str = "volume.beta.kubernetes.io/storage-class";

/// Whether claims are counted under this resource name.
pub(super) fn counts(name: &str) -> bool {
    let plain = |name: &str| matches!(name, CLAIMS | STORAGE);
    name == "count/persistentvolumeclaims" || plain(name) || name.split_once(CLASS).is_some_and(|(_, rest)| plain(rest))
}

/// Returns the usage of a claim; during an expansion, the larger of requested and allocated storage (KEP-1790).
pub(super) fn usage(object: &Obj) -> Amounts {
    let mut amounts = Amounts::default();
    let Some(claim) = object.view::<PersistentVolumeClaim<'_>>() else { return amounts };
    let beta = claim.metadata().annotations().get(CLASS_BETA);
    let class = beta.or(claim.spec().storage_class_name()).filter(|class| !class.is_empty());
    let mut set = |name: &str, amount: oarlock_meta::Quantity| {
        if let Some(class) = class {
            amounts.set(format_compact!("{class}{CLASS}{name}"), amount.clone());
        }
        amounts.set(name, amount);
    };
    set(CLAIMS, whole(1));
    let mut storage = Amounts::of(claim.spec().resources().requests());
    storage.raise(&Amounts::of(claim.status().allocated_resources()));
    if let Some(storage) = storage.get("storage") {
        set(STORAGE, storage.clone());
    }
    amounts.set("count/persistentvolumeclaims", whole(1));
    amounts
}

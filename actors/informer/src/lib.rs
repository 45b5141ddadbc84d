//! Informers (watch-fed caches of API objects) and the framework that controllers run in.
//!
//! * [`Project`] declares the fields that a consumer reads. Each event is decoded once; only the projection is kept, and consumers share it.
//! * [`SharedInformers`] hands out one [`Cache`] per resource, projection and [`Selection`], fed by a reflector actor.
//! * [`Cache`] is read by key and by [`Index`], reports how fresh its content is, and notifies [`Changes`] subscribers, level-triggered.
//! * [`Relay`] passes the changes that one process has read on to others that read the same resource, so that one watch serves them all.
//! * [`WorkQueue`], [`Controller`] and [`OwnWrites`] turn changes into reconciles. [`Recorder`] writes Events.
//!
//! Every request goes through `oarlock_client`, so the same informers run inside the apiserver's process and against stock Kubernetes.

mod cache;
mod cache_revision;
mod changes;
mod controller;
mod events;
mod gate_spawn;
mod item;
mod key;
mod metrics;
mod obj_meta;
mod own_writes;
mod project;
mod reflector;
mod refused;
mod relay;
mod selection;
mod shared;
#[cfg(test)]
mod testing;
mod work_queue;

pub use cache::{Cache, Index, NotCaughtUp};
pub use cache_revision::{CacheRevision, Progress};
pub use changes::{Change, Changes, Notice};
pub use controller::{CONTROLLER, Controller, ControllerBuilder, ControllerRow, Reconcile, Requeue};
pub use events::{EventType, ObjectRef, RECORDER, Recorder};
pub use gate_spawn::GateSpawn;
pub use item::Item;
pub use key::Key;
pub use obj_meta::{ObjMeta, OwnerRef};
pub use own_writes::OwnWrites;
pub use project::{Fields, MANAGED_FIELDS_PATH, Project, ResourceName};
pub use reflector::{REFLECTOR, reflect};
pub use refused::refusals_seen;
pub use relay::{Delta, Read, Relay, Stretch};
pub use selection::Selection;
pub use shared::{Error, SharedInformers};
pub use work_queue::{QueueStats, WorkQueue};

/// The actor kinds of this crate.
pub static KINDS: &[&oarlock_runtime::ActorKind] = &[&reflector::REFLECTOR, &CONTROLLER, &RECORDER];

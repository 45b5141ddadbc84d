//! Informers: what a consumer reads of the cluster, kept current by watches; and the shell in which controllers run.
//!
//! * [`Project`] declares the fields that are read; an object is decoded once per event and dropped, the projection is shared.
//! * [`SharedInformers`] hands out one [`Cache`] per resource, projection and [`Selection`], fed by a reflector actor.
//! * [`Cache`] answers by key and by [`Index`], tells how fresh it is, and notifies [`Changes`] subscribers, level-triggered.
//! * [`Relay`] lets processes that read the same tell each other, so that one of them watches for all.
//! * [`WorkQueue`], [`Controller`] and [`OwnWrites`] turn changes into reconciles; [`Recorder`] writes Events.
//!
//! Everything reaches the cluster through `oarlock_client`, so the same informers run in process and against stock Kubernetes.

mod cache;
mod changes;
mod controller;
mod events;
mod gate_spawn;
mod item;
mod key;
mod metrics;
mod own_writes;
mod project;
mod reflector;
mod refused;
mod relay;
mod shared;
#[cfg(test)]
mod testing;
mod work_queue;

pub use cache::{Cache, Index, Lagging, Progress};
pub use changes::{Change, Changes, Notice};
pub use controller::{CONTROLLER, Controller, ControllerBuilder, ControllerRow, Reconcile, Requeue};
pub use events::{EventType, ObjectRef, RECORDER, Recorder};
pub use gate_spawn::GateSpawn;
pub use item::{Item, ObjMeta, OwnerRef};
pub use key::Key;
pub use own_writes::{Fresh, OwnWrites};
pub use project::{Fields, MANAGED, Project, ResourceName};
pub use reflector::{REFLECTOR, reflect};
pub use refused::refusals_seen;
pub use relay::{Delta, Read, Relay, Stretch};
pub use shared::{Error, Selection, SharedInformers};
pub use work_queue::{QueueStats, WorkQueue};

/// The rows of every actor that lives here.
pub static KINDS: &[&oarlock_runtime::ActorKind] = &[&reflector::REFLECTOR, &CONTROLLER, &RECORDER];

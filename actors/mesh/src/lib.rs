//! The units of work that processes share, the claims of this process to units, and the requests between processes over the bus.
//!
//! - [`Unit`]: work that is assigned as a whole, such as a sixteenth of the keys of all partitioned controllers, or a controller that runs in one process.
//! - [`Placement`]: the units that this process holds, each with its epoch. A process that runs alone holds all units, without a claim.
//! - [`Permit`]: the right to one call outside of the API (for instance to a cloud), where no epoch is compared. The right is limited by a clock.
//! - [`join()`] makes this process a member of the bus; [`attend`] sends its heartbeats, receives those of others, and answers questions about its
//!   traffic, actors and spans.
//! - [`Service`] answers requests (asks): a bounded number concurrently, each with its deadline and trace; further requests are declined at once.
//! - [`inspect`] asks all members for their bus traffic, [`member_actors`] for their actors, [`member_spans`] for the spans that
//!   they keep in memory.
//!
//! Invariant: clocks and messages decide when a coordinator tries to move a unit, never whether the old holder may still write: every write for a
//! unit is made under an [`oarlock_client::Fence`] and compared with the unit's Assignment in the same commit. Only calls outside of the API
//! depend on a clock, so units with such calls move later ([`CallWindow`]).

mod external_calls;
pub mod inspect;
mod join;
mod join_error;
mod member;
pub mod member_actors;
pub mod member_spans;
mod methods;
mod metrics;
mod placement;
mod roster;
mod serve;
mod service;
mod unit;

pub use external_calls::{CallWindow, EXPIRY_MARGIN, MAX_CALL, NoPermit, Permit};
pub use join::{connect, join, member_name};
pub use join_error::JoinError;
pub use member::{attend, is_here};
/// OpenTelemetry's messages of spans (`opentelemetry.proto.trace.v1`).
pub use opentelemetry_proto::tonic as otlp;
pub use placement::{Changes, Claim, Holder, Placement};
pub use roster::HEARTBEAT_PERIOD;
pub use service::{RequestInfo, Service};
pub use unit::{PARTITIONS, Scope, Unit};

/// The actor kinds of this crate.
pub static KINDS: [&oarlock_runtime::ActorKind; 2] = [&member::PRESENCE, &service::SERVICE];

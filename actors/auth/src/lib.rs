//! Authentication and authorization of requests.
//!
//! - [`authenticators`]: client certificates, bound ServiceAccount tokens, the front proxy's headers, anonymous. A wrong credential is always
//!   refused; only a request without a credential becomes `system:anonymous`.
//! - [`tokens`]: ServiceAccount tokens, issued and verified.
//! - [`authorizers`]: the chain `system:masters`, Node, RBAC, each answering [`Decision`]. RBAC is indexed by subject and by verb and resource, never
//!   scanned; the Node authorizer keeps the graph of the objects that each node's pods refer to.
//! - [`escalation`]: no user grants permissions they do not hold. [`impersonation`]: requests in another user's name.
//!
//! All decisions are made in memory, from arguments and earlier updates; no function reads a clock or waits. The store's objects arrive through
//! [`Authorizers::observe`] (see [`objects`]) and [`tokens::Lookup`].

pub mod attributes;
pub mod authenticators;
pub mod authorizers;
pub mod escalation;
mod grant;
pub mod impersonation;
pub mod objects;
pub mod tokens;
pub mod user;

pub use attributes::{Attributes, Decision};
pub use authenticators::{Authenticators, PeerCertificates, Unauthorized};
pub use authorizers::Authorizers;
pub use grant::Grant;
pub use user::UserInfo;

//! Who a request is from, and whether they may do it.
//!
//! - [`authenticators`]: client certificates, bound ServiceAccount tokens, the front proxy's headers, anonymous. A wrong
//!   credential is refused on every path; only the absence of one makes `system:anonymous`.
//! - [`tokens`]: ServiceAccount tokens, issued and verified.
//! - [`authorizers`]: the chain `system:masters`, Node, RBAC, each answering [`Decision`]. RBAC is indexed by subject and by
//!   verb and resource, never scanned; the Node authorizer keeps the graph of what each node's pods refer to.
//! - [`escalation`]: nobody grants what they do not hold. [`impersonation`]: acting as somebody else.
//!
//! Everything decides in memory, from its arguments and what it was told before; nothing here reads a clock or waits. What the
//! store holds arrives as objects ([`Authorizers::observe`], see [`objects`]) and through [`tokens::Lookup`].

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

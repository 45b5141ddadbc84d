//! The row of a controller in the table.

use futures::future::BoxFuture;

use super::concurrency::Concurrency;
use super::env::Env;
use super::need::Requirement;
use super::spread::Spread;
use crate::error::Error;

/// Starts one controller.
pub(crate) type Starter = fn(Env) -> BoxFuture<'static, Result<(), Error>>;

/// The row of one controller: name, identity, workers, distribution and needs.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Canonical name, upstream's; ends in `-controller`.
    pub name: &'static str,
    /// Names of earlier releases that `--controllers` still takes, upstream's.
    pub aliases: &'static [&'static str],
    /// ServiceAccount in namespace `kube-system`; the role bound to it is `system:controller:<account>`.
    pub account: &'static str,
    /// Source of the controller's Events and name of its field manager.
    pub component: &'static str,
    /// Number of keys reconciled at once.
    pub workers: Concurrency,
    /// The distribution of the controller over processes.
    pub spread: Spread,
    /// The reason for the distribution.
    pub why: &'static str,
    /// Whether `*` in `--controllers` includes the controller; a controller that is off by default runs only if `--controllers` names it.
    pub on_by_default: bool,
    /// Feature gate without which the controller does not run.
    pub gate: Option<&'static str>,
    /// What the controller cannot run without, besides the API.
    pub needs: &'static [Requirement],
    pub(crate) start: Starter,
}

#[cfg(test)]
impl Row {
    /// The row of a controller that does nothing, for tests of code that reads rows.
    pub(crate) const PLAIN: Self = Self {
        name: "plain-controller",
        aliases: &[],
        account: "plain",
        component: "plain",
        workers: Concurrency::fixed(1),
        spread: Spread::Key,
        why: "a test",
        on_by_default: true,
        gate: None,
        needs: &[],
        start: |_| Box::pin(async { Ok(()) }),
    };
}

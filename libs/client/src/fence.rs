//! Fenced writes: every write inside [`scope`] carries the header `Oarlock-Fence: unit@epoch`.
//!
//! The server checks the fence in the same commit as the write: unless the unit's `Assignment` still has the epoch as its revision, nothing is written and the answer is a 409
//! with cause [`STALE_OWNER`](oarlock_meta::status::cause::STALE_OWNER). Upstream's servers ignore the header.

use std::fmt;
use std::str::FromStr;

use oarlock_meta::Revision;
use oarlock_schema::Str;

/// Name of the HTTP header.
pub const HEADER: &str = "oarlock-fence";

/// A claim on a unit of work, valid until the unit is assigned anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Name of the unit's Assignment.
    pub unit: Str,
    /// Revision at which the unit was assigned.
    pub epoch: Revision,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.unit, self.epoch)
    }
}

/// Error for a text that is no `unit@epoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a unit and its epoch, as \"controllers-3@1234\"")]
pub struct Malformed;

impl FromStr for Fence {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let (unit, epoch) = text.split_once('@').ok_or(Malformed)?;
        let named = !unit.is_empty() && unit.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        let epoch: Revision = epoch.parse().map_err(|_| Malformed)?;
        if named && !epoch.is_zero() { Ok(Self { unit: unit.into(), epoch }) } else { Err(Malformed) }
    }
}

tokio::task_local! {
    static CURRENT: Option<Fence>;
}

/// Runs `work`; every write that a [`Client`](crate::Client) sends inside, on the same task, carries `fence`. Reads are unaffected.
pub async fn scope<F: Future>(fence: Option<Fence>, work: F) -> F::Output {
    CURRENT.scope(fence, work).await
}

/// Returns the fence of the current scope.
#[must_use]
pub fn current() -> Option<Fence> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        let fence = Fence { unit: "controllers-3".into(), epoch: Revision(12) };
        assert_eq!(fence.to_string().parse(), Ok(fence));
        for text in ["", "a", "a@", "@1", "a@0", "a@-1", "a@1@2", "A@1", "a/b@1", "a@1 ", "a@1x"] {
            assert_eq!(text.parse::<Fence>(), Err(Malformed), "{text}");
        }
    }

    #[tokio::test]
    async fn holds_inside_its_scope_only() {
        let fence = Some(Fence { unit: "arbiter".into(), epoch: Revision(1) });
        assert_eq!(current(), None);
        assert_eq!(scope(fence.clone(), async { current() }).await, fence);
        assert_eq!(current(), None);
    }
}

//! Who makes a call, and what is told back beside the answer.

use std::collections::HashSet;
use std::sync::Arc;

use oarlock_auth::UserInfo;
use oarlock_client::Fence;
use oarlock_runtime::Instant;
use oarlock_schema::Str;
use parking_lot::Mutex;

/// Texts in the order in which they came, each once.
#[derive(Debug, Default)]
struct Warnings {
    texts: Vec<String>,
    seen: HashSet<String>,
}

/// One call's caller. Authentication is over when this exists.
#[derive(Debug)]
pub struct Caller {
    /// The identity, after impersonation.
    pub user: Arc<UserInfo>,
    /// `User-Agent`, from which a field manager is derived that the request does not name.
    pub agent: Str,
    /// When the call must be answered.
    pub deadline: Instant,
    /// Names the request in the audit log; `None` for a request that is not audited.
    pub audit_id: Option<Str>,
    /// The claim under which it writes; compared in the commit itself.
    pub fence: Option<Fence>,
    warnings: Mutex<Warnings>,
}

impl Caller {
    /// A caller without warnings, and without a claim.
    #[must_use]
    pub fn new(user: Arc<UserInfo>, agent: Str, deadline: Instant) -> Self {
        Self { user, agent, deadline, audit_id: None, fence: None, warnings: Mutex::default() }
    }

    /// Adds a text for a `Warning: 299` header, once.
    pub fn warn(&self, text: String) {
        let mut warnings = self.warnings.lock();
        if warnings.seen.insert(text.clone()) {
            warnings.texts.push(text);
        }
    }

    /// Takes the warnings.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock()).texts
    }

    /// The field manager of a write (upstream: `managerOrUserAgent`): what the request names, else the agent up to its first slash.
    #[must_use]
    pub fn manager<'a>(&'a self, named: &'a str) -> &'a str {
        const MAX: usize = 128;
        if !named.is_empty() {
            return named;
        }
        let agent = self.agent.split('/').next().unwrap_or("");
        let cut = agent.floor_char_boundary(MAX);
        match agent.get(..cut) {
            Some("") | None => "unknown",
            Some(agent) => agent,
        }
    }
}

//! The needs of controllers besides the API, and what a process supplies.

use std::fmt;
use std::sync::Arc;

use crate::cloud::provider::Cloud;

/// A requirement, besides the API, without which a controller cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The cluster's CA certificates.
    RootCa,
    /// A cloud provider.
    Cloud,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RootCa => "the cluster's CA certificates (--root-ca-file)",
            Self::Cloud => "a cloud provider",
        })
    }
}

/// The needs that a process can meet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supplies {
    /// The cluster's CA certificates, PEM.
    pub(crate) root_ca: Option<Arc<str>>,
    /// The cloud provider.
    pub(crate) cloud: Option<Cloud>,
}

impl Supplies {
    /// Returns the first of these needs that the process does not meet.
    pub(crate) fn unmet(&self, needs: &[Need]) -> Option<Need> {
        let met = |need: &Need| match need {
            Need::RootCa => self.root_ca.is_some(),
            Need::Cloud => self.cloud.is_some(),
        };
        needs.iter().copied().find(|need| !met(need))
    }

    /// Returns only the supplies that these needs name, so that a controller gets nothing its row does not declare.
    pub(crate) fn of(&self, needs: &[Need]) -> Self {
        Self {
            root_ca: self.root_ca.clone().filter(|_| needs.contains(&Need::RootCa)),
            cloud: self.cloud.clone().filter(|_| needs.contains(&Need::Cloud)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_gets_what_it_declares_and_nothing_else() {
        let process = Supplies { root_ca: Some("pem".into()), cloud: None };
        assert_eq!(process.unmet(&[]), None);
        assert_eq!(process.unmet(&[Need::RootCa]), None);
        assert_eq!(process.unmet(&[Need::RootCa, Need::Cloud]), Some(Need::Cloud));
        assert!(process.of(&[Need::RootCa]).root_ca.is_some());
        assert!(process.of(&[Need::Cloud]).root_ca.is_none() && process.of(&[]).root_ca.is_none());
    }
}

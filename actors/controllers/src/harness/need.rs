//! The needs of controllers besides the API, and what a process supplies.

use std::fmt;
use std::sync::Arc;

use crate::cloud::provider::Cloud;

/// A requirement, besides the API, without which a controller cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The cluster's CA certificates.
    RootCa,
    /// A cloud provider.
    Cloud,
}

impl fmt::Display for Requirement {
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
    pub(crate) fn unmet(&self, needs: &[Requirement]) -> Option<Requirement> {
        let met = |need: &Requirement| match need {
            Requirement::RootCa => self.root_ca.is_some(),
            Requirement::Cloud => self.cloud.is_some(),
        };
        needs.iter().copied().find(|need| !met(need))
    }

    /// Returns only the supplies that these needs name, so that a controller gets nothing its row does not declare.
    pub(crate) fn of(&self, needs: &[Requirement]) -> Self {
        Self {
            root_ca: self.root_ca.clone().filter(|_| needs.contains(&Requirement::RootCa)),
            cloud: self.cloud.clone().filter(|_| needs.contains(&Requirement::Cloud)),
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
        assert_eq!(process.unmet(&[Requirement::RootCa]), None);
        assert_eq!(process.unmet(&[Requirement::RootCa, Requirement::Cloud]), Some(Requirement::Cloud));
        assert!(process.of(&[Requirement::RootCa]).root_ca.is_some());
        assert!(process.of(&[Requirement::Cloud]).root_ca.is_none() && process.of(&[]).root_ca.is_none());
    }
}

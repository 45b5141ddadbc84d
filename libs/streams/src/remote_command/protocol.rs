//! The protocol versions of the SPDY side.

use super::PROTOCOLS;

/// A protocol version of the SPDY side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// `channel.k8s.io`.
    V1,
    /// `v2.channel.k8s.io`.
    V2,
    /// `v3.channel.k8s.io`.
    V3,
    /// `v4.channel.k8s.io`.
    V4,
    /// `v5.channel.k8s.io`.
    V5,
}

impl Protocol {
    /// Returns the protocol that a server chose; the first one when the server named none.
    #[must_use]
    pub fn chosen(name: &str) -> Option<Self> {
        const ALL: [Protocol; 5] = [Protocol::V5, Protocol::V4, Protocol::V3, Protocol::V2, Protocol::V1];
        if name.is_empty() {
            return Some(Self::V1);
        }
        let at = PROTOCOLS.iter().position(|known| *known == name)?;
        ALL.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_known_by_name() {
        assert_eq!(Protocol::chosen("v4.channel.k8s.io"), Some(Protocol::V4));
        assert_eq!(
            (Protocol::chosen(""), Protocol::chosen("channel.k8s.io")),
            (Some(Protocol::V1), Some(Protocol::V1))
        );
        assert_eq!(Protocol::chosen("v6.channel.k8s.io"), None);
    }
}

//! The table of subjects: each row defines one kind of subject, what it carries, who may publish and who may subscribe. The bus has no other subjects.
//!
//! Fields of a template stand in braces. A grant may pin fields to the member that uses it: `{role}` to its own role, `{name}` to its own name. The server can enforce a
//! pinned name only where each member has its own credential, that is for nodes; members of any other role trust one another.

use crate::role::{Identity, Role};

/// Kinds of subjects, one for each row of the [`table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A member announces that it is alive.
    Presence,
    /// Asks to the holder of a unit, at one epoch.
    Unit,
    /// Asks to any member of a role that offers a service.
    Service,
    /// Asks to a node.
    Node,
    /// Asks from a node to any member of a role that offers a service to nodes.
    Up,
    /// Asks to one member that is not a node.
    Member,
    /// A lossy wake-up.
    Hint,
    /// Lossy state updates to the members of a role.
    Feed,
    /// Messages of a member to itself: receiving one proves that the server has processed all earlier messages.
    Sync,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Presence,
        Self::Unit,
        Self::Service,
        Self::Node,
        Self::Up,
        Self::Member,
        Self::Hint,
        Self::Feed,
        Self::Sync,
    ];

    /// Returns the kind's row.
    #[must_use]
    pub fn row(self) -> &'static Row {
        match self {
            Self::Presence => &PRESENCE,
            Self::Unit => &UNIT,
            Self::Service => &SERVICE,
            Self::Node => &NODE,
            Self::Up => &UP,
            Self::Member => &MEMBER,
            Self::Hint => &HINT,
            Self::Feed => &FEED,
            Self::Sync => &SYNC,
        }
    }
}

/// What the subjects of a row carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Questions, each of which is answered.
    Asks,
    /// Messages that may be lost.
    Hints,
}

/// Fields of a template that are pinned to the using member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinnedFields {
    /// No field.
    Nothing,
    /// `{role}`.
    Role,
    /// `{name}`.
    Name,
    /// Role and name.
    Both,
}

impl PinnedFields {
    /// Whether the pin covers a field of the template.
    pub(crate) fn pins(self, field: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Role => field == "role",
            Self::Name => field == "name",
            Self::Both => field == "role" || field == "name",
        }
    }
}

/// A role whose members may use a subject, with the fields that are pinned to them.
pub type Grant = (Role, PinnedFields);

/// One kind of subject.
#[derive(Debug)]
pub struct Row {
    /// The kind of subject that the row defines.
    pub kind: Kind,
    /// Name of the kind in metrics.
    pub name: &'static str,
    /// Template of the subjects; fields stand in braces, one token each.
    pub template: &'static str,
    /// Whether the subjects carry asks or hints.
    pub carries: Traffic,
    /// Whether one subscriber receives each message, instead of all.
    pub group: bool,
    /// Roles that may publish.
    pub publish: &'static [Grant],
    /// Roles that may subscribe.
    pub hear: &'static [Grant],
}

use PinnedFields::{Both, Name, Nothing, Role as OwnRole};
use Role::{Admission, ApiServer, Cloud, Controllers, Inspector, Node, Scheduler};

static PRESENCE: Row = Row {
    kind: Kind::Presence,
    name: "presence",
    template: "ol.presence.{role}.{name}",
    carries: Traffic::Hints,
    group: false,
    publish: &[
        (ApiServer, Both),
        (Controllers, Both),
        (Scheduler, Both),
        (Admission, Both),
        (Cloud, Both),
        (Node, Both),
    ],
    hear: &[
        (ApiServer, Nothing),
        (Controllers, Nothing),
        (Scheduler, Nothing),
        (Admission, Nothing),
        (Cloud, Nothing),
        (Inspector, Nothing),
    ],
};

static UNIT: Row = Row {
    kind: Kind::Unit,
    name: "unit",
    template: "ol.unit.{role}.{unit}.{epoch}.{method}",
    carries: Traffic::Asks,
    group: false,
    publish: &[(ApiServer, Nothing), (Controllers, Nothing), (Scheduler, Nothing)],
    hear: &[(Controllers, OwnRole), (Scheduler, OwnRole)],
};

static SERVICE: Row = Row {
    kind: Kind::Service,
    name: "service",
    template: "ol.svc.{role}.{service}",
    carries: Traffic::Asks,
    group: true,
    publish: &[
        (ApiServer, Nothing),
        (Controllers, Nothing),
        (Scheduler, Nothing),
        (Admission, Nothing),
        (Cloud, Nothing),
        (Inspector, Nothing),
    ],
    hear: &[(ApiServer, OwnRole), (Controllers, OwnRole), (Scheduler, OwnRole), (Admission, OwnRole), (Cloud, OwnRole)],
};

static NODE: Row = Row {
    kind: Kind::Node,
    name: "node",
    template: "ol.node.{name}.{method}",
    carries: Traffic::Asks,
    group: false,
    publish: &[(ApiServer, Nothing), (Controllers, Nothing), (Inspector, Nothing)],
    hear: &[(Node, Name)],
};

static UP: Row = Row {
    kind: Kind::Up,
    name: "up",
    template: "ol.up.{name}.{role}.{service}",
    carries: Traffic::Asks,
    group: true,
    publish: &[(Node, Name)],
    hear: &[(ApiServer, OwnRole), (Controllers, OwnRole), (Scheduler, OwnRole), (Admission, OwnRole)],
};

static MEMBER: Row = Row {
    kind: Kind::Member,
    name: "member",
    template: "ol.member.{role}.{name}.{method}",
    carries: Traffic::Asks,
    group: false,
    publish: &[
        (ApiServer, Nothing),
        (Inspector, Nothing),
        (Controllers, OwnRole),
        (Scheduler, OwnRole),
        (Admission, OwnRole),
        (Cloud, OwnRole),
    ],
    hear: &[(ApiServer, Both), (Controllers, Both), (Scheduler, Both), (Admission, Both), (Cloud, Both)],
};

static HINT: Row = Row {
    kind: Kind::Hint,
    name: "hint",
    template: "ol.hint.{topic}",
    carries: Traffic::Hints,
    group: false,
    publish: &[(ApiServer, Nothing), (Controllers, Nothing), (Scheduler, Nothing), (Admission, Nothing)],
    hear: &[(ApiServer, Nothing), (Controllers, Nothing), (Scheduler, Nothing), (Admission, Nothing)],
};

static FEED: Row = Row {
    kind: Kind::Feed,
    name: "feed",
    template: "ol.feed.{role}.{topic}",
    carries: Traffic::Hints,
    group: false,
    publish: &[(Scheduler, OwnRole)],
    hear: &[(Scheduler, OwnRole)],
};

static SYNC: Row = Row {
    kind: Kind::Sync,
    name: "sync",
    template: "ol.sync",
    carries: Traffic::Asks,
    group: false,
    publish: &[
        (ApiServer, Nothing),
        (Controllers, Nothing),
        (Scheduler, Nothing),
        (Admission, Nothing),
        (Cloud, Nothing),
        (Node, Nothing),
        (Inspector, Nothing),
    ],
    hear: &[],
};

/// Queue group of all kinds with `group`.
pub const QUEUE_GROUP: &str = "ol";

/// Returns all rows.
pub fn table() -> impl Iterator<Item = &'static Row> {
    Kind::ALL.into_iter().map(Kind::row)
}

impl Row {
    /// Fills the template with the values that `value` returns, and `*` for the other fields.
    pub(crate) fn render<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> String {
        let mut text = String::with_capacity(64);
        for token in self.template.split('.') {
            if !text.is_empty() {
                text.push('.');
            }
            match field(token) {
                Some(field) => text.push_str(value(field).unwrap_or("*")),
                None => text.push_str(token),
            }
        }
        text
    }

    /// Returns the value of a field in a subject of this row.
    pub(crate) fn value<'a>(&self, subject: &'a str, wanted: &str) -> Option<&'a str> {
        let place = self.template.split('.').position(|token| field(token) == Some(wanted))?;
        subject.split('.').nth(place)
    }

    /// Whether a subject belongs to this row.
    pub(crate) fn matches(&self, subject: &str) -> bool {
        let mut tokens = subject.split('.');
        self.template.split('.').all(|own| match (tokens.next(), field(own)) {
            (Some(token), Some(_)) => !token.is_empty(),
            (Some(token), None) => token == own,
            (None, _) => false,
        }) && tokens.next().is_none()
    }

    /// Whether the table lets a member publish to a subject.
    #[must_use]
    pub fn may_publish(&self, who: &Identity, subject: &str) -> bool {
        self.granted(self.publish, who, subject)
    }

    /// Whether the table lets a member subscribe to a pattern.
    #[must_use]
    pub fn may_subscribe(&self, who: &Identity, pattern: &str) -> bool {
        self.granted(self.hear, who, pattern)
    }

    fn granted(&self, grants: &[Grant], who: &Identity, subject: &str) -> bool {
        grants.iter().any(|(role, pin)| {
            let own =
                |field: &str, value: &str| !pin.pins(field) || self.value(subject, field).is_none_or(|v| v == value);
            *role == who.role() && own("role", role.as_str()) && own("name", who.token())
        })
    }
}

/// Returns the field name of a template token.
fn field(token: &str) -> Option<&str> {
    token.strip_prefix('{')?.strip_suffix('}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_belongs_to_one_row() {
        for row in table() {
            let text = row.render(|_| Some("x"));
            let owners: Vec<_> = table().filter(|other| other.matches(&text)).map(|other| other.name).collect();
            assert_eq!(owners, [row.name]);
            assert_eq!(Kind::ALL.iter().position(|kind| *kind == row.kind), Some(row.kind as usize));
        }
        assert!(!HINT.matches("ol.hint") && !HINT.matches("ol.hint.") && !HINT.matches("ol.hint.a.b"));
    }

    #[test]
    fn pins_hold_a_member_to_its_own() {
        let node = Identity::new(Node, "n1").unwrap();
        assert!(UP.may_publish(&node, "ol.up.n1.controllers.drain"));
        assert!(!UP.may_publish(&node, "ol.up.n2.controllers.drain"));
        assert!(!UP.may_publish(&node, "ol.up.*.controllers.drain"));
        let scheduler = Identity::new(Scheduler, "s1").unwrap();
        assert!(UNIT.may_subscribe(&scheduler, "ol.unit.scheduler.arbiter.e5.*"));
        assert!(!UNIT.may_subscribe(&scheduler, "ol.unit.controllers.arbiter.e5.*"));
        assert!(!UNIT.may_subscribe(&scheduler, "ol.unit.*.arbiter.e5.*"));
    }

    #[test]
    fn nodes_are_heard_under_their_own_names_only() {
        for row in table() {
            let pinned =
                |grants: &[Grant]| grants.iter().filter(|(role, _)| *role == Node).all(|(_, pin)| pin.pins("name"));
            assert!(pinned(row.publish) || row.kind == Kind::Sync, "{}", row.name);
            assert!(pinned(row.hear), "{}", row.name);
        }
    }
}

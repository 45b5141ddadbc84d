//! The table of subjects: one row per kind says what travels there, who may publish and who may hear. Nothing else is said on the bus.
//!
//! A template's fields stand in braces. A grant may pin fields to the member that uses it: `{role}` to its own role, `{name}` to its own name. A name
//! can be held by credentials only where each member has its own, so for nodes; among members of another role one trusts the others.

use crate::role::{Identity, Role};

/// Kinds of subjects, one for each row of the [`table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A member says that it lives.
    Presence,
    /// To the holder of a unit, at one epoch.
    Unit,
    /// To any member of a role that offers a service.
    Service,
    /// To a node.
    Node,
    /// From a node, to any member of a role that offers a service to nodes.
    Up,
    /// To one member that is no node.
    Member,
    /// A lossy wake-up.
    Hint,
    /// To the members of a role: what one of them knows, as far as it arrives.
    Feed,
    /// To nobody: that it comes back proves that what was sent before has arrived at the server.
    Sync,
}

impl Kind {
    /// All of them.
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

    /// Its row.
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

/// What travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Questions, each of which is answered.
    Asks,
    /// Messages that may be lost.
    Hints,
}

/// Which fields of a template are the user's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// None: whatever the fields say.
    Nothing,
    /// `{role}`.
    Role,
    /// `{name}`.
    Name,
    /// Both.
    Both,
}

impl Pin {
    /// Whether it pins a field of the template.
    pub(crate) fn pins(self, field: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Role => field == "role",
            Self::Name => field == "name",
            Self::Both => field == "role" || field == "name",
        }
    }
}

/// Members of this role may, on what is left by the pins.
pub type Grant = (Role, Pin);

/// One kind of subject.
#[derive(Debug)]
pub struct Row {
    /// Which.
    pub kind: Kind,
    /// Its name in metrics.
    pub name: &'static str,
    /// Its subjects; fields stand in braces, one token each.
    pub template: &'static str,
    /// What travels.
    pub carries: Carries,
    /// Whether each message goes to one of those who hear, and not to all.
    pub group: bool,
    /// Who may publish.
    pub publish: &'static [Grant],
    /// Who may hear.
    pub hear: &'static [Grant],
}

use Pin::{Both, Name, Nothing, Role as OwnRole};
use Role::{Admission, ApiServer, Cloud, Controllers, Inspector, Node, Scheduler};

static PRESENCE: Row = Row {
    kind: Kind::Presence,
    name: "presence",
    template: "ol.presence.{role}.{name}",
    carries: Carries::Hints,
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
    carries: Carries::Asks,
    group: false,
    publish: &[(ApiServer, Nothing), (Controllers, Nothing), (Scheduler, Nothing)],
    hear: &[(Controllers, OwnRole), (Scheduler, OwnRole)],
};

static SERVICE: Row = Row {
    kind: Kind::Service,
    name: "service",
    template: "ol.svc.{role}.{service}",
    carries: Carries::Asks,
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
    carries: Carries::Asks,
    group: false,
    publish: &[(ApiServer, Nothing), (Controllers, Nothing), (Inspector, Nothing)],
    hear: &[(Node, Name)],
};

static UP: Row = Row {
    kind: Kind::Up,
    name: "up",
    template: "ol.up.{name}.{role}.{service}",
    carries: Carries::Asks,
    group: true,
    publish: &[(Node, Name)],
    hear: &[(ApiServer, OwnRole), (Controllers, OwnRole), (Scheduler, OwnRole), (Admission, OwnRole)],
};

static MEMBER: Row = Row {
    kind: Kind::Member,
    name: "member",
    template: "ol.member.{role}.{name}.{method}",
    carries: Carries::Asks,
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
    carries: Carries::Hints,
    group: false,
    publish: &[(ApiServer, Nothing), (Controllers, Nothing), (Scheduler, Nothing), (Admission, Nothing)],
    hear: &[(ApiServer, Nothing), (Controllers, Nothing), (Scheduler, Nothing), (Admission, Nothing)],
};

static FEED: Row = Row {
    kind: Kind::Feed,
    name: "feed",
    template: "ol.feed.{role}.{topic}",
    carries: Carries::Hints,
    group: false,
    publish: &[(Scheduler, OwnRole)],
    hear: &[(Scheduler, OwnRole)],
};

static SYNC: Row = Row {
    kind: Kind::Sync,
    name: "sync",
    template: "ol.sync",
    carries: Carries::Asks,
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

/// The queue group of every kind that has one.
pub const GROUP: &str = "ol";

/// Every row.
pub fn table() -> impl Iterator<Item = &'static Row> {
    Kind::ALL.into_iter().map(Kind::row)
}

impl Row {
    /// Its template with what `value` says of its fields, and `*` for those it says nothing of.
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

    /// The value of a field in one of its subjects.
    pub(crate) fn value<'a>(&self, subject: &'a str, wanted: &str) -> Option<&'a str> {
        let place = self.template.split('.').position(|token| field(token) == Some(wanted))?;
        subject.split('.').nth(place)
    }

    /// Whether a subject is one of its.
    pub(crate) fn matches(&self, subject: &str) -> bool {
        let mut tokens = subject.split('.');
        self.template.split('.').all(|own| match (tokens.next(), field(own)) {
            (Some(token), Some(_)) => !token.is_empty(),
            (Some(token), None) => token == own,
            (None, _) => false,
        }) && tokens.next().is_none()
    }

    /// Whether the table lets a member publish to one of its subjects.
    #[must_use]
    pub fn may_publish(&self, who: &Identity, subject: &str) -> bool {
        self.granted(self.publish, who, subject)
    }

    /// Whether the table lets a member hear what a pattern selects.
    #[must_use]
    pub fn may_hear(&self, who: &Identity, pattern: &str) -> bool {
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

/// The field of a template's token.
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
        assert!(UNIT.may_hear(&scheduler, "ol.unit.scheduler.arbiter.e5.*"));
        assert!(!UNIT.may_hear(&scheduler, "ol.unit.controllers.arbiter.e5.*"));
        assert!(!UNIT.may_hear(&scheduler, "ol.unit.*.arbiter.e5.*"));
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

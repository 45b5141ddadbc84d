//! Subjects and patterns, built from the rows of the table.

use std::fmt;
use std::sync::Arc;

use oarlock_meta::Revision;

use crate::name::{self, BadName};
use crate::role::{Identity, Role};
use crate::subjects::{Kind, Row, table};

/// Destination of one message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    kind: Kind,
    text: Arc<str>,
}

/// A subscription pattern: some subjects of one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    kind: Kind,
    text: Arc<str>,
}

fn render(kind: Kind, fields: &[(&str, &str)]) -> Arc<str> {
    kind.row().render(|field| fields.iter().find(|(name, _)| *name == field).map(|(_, value)| *value)).into()
}

fn epoch_token(epoch: Revision) -> String {
    format!("e{epoch}")
}

impl Subject {
    fn new(kind: Kind, fields: &[(&str, &str)]) -> Self {
        Self { kind, text: render(kind, fields) }
    }

    /// The subject on which a member announces that it is alive.
    #[must_use]
    pub fn presence(of: &Identity) -> Self {
        Self::new(Kind::Presence, &[("role", of.role().as_str()), ("name", of.token())])
    }

    /// The subject of the member of a role that holds a unit since `epoch`. Earlier and later holders do not receive its messages.
    ///
    /// # Errors
    /// For a name that cannot be part of a subject.
    pub fn unit(role: Role, unit: &str, epoch: Revision, method: &str) -> Result<Self, BadName> {
        let (unit, epoch, method) = (name::token(unit)?, epoch_token(epoch), name::token(method)?);
        Ok(Self::new(Kind::Unit, &[("role", role.as_str()), ("unit", &unit), ("epoch", &epoch), ("method", &method)]))
    }

    /// The subject of a service; one of the role's members that offer it receives each message.
    ///
    /// # Errors
    /// For a name that cannot be part of a subject.
    pub fn service(role: Role, service: &str) -> Result<Self, BadName> {
        Ok(Self::new(Kind::Service, &[("role", role.as_str()), ("service", &name::token(service)?)]))
    }

    /// The subject on which a node asks one of a role's members that offer a service to nodes.
    ///
    /// # Errors
    /// For a name that cannot be part of a subject.
    pub fn up(node: &str, role: Role, service: &str) -> Result<Self, BadName> {
        let (node, service) = (name::token(node)?, name::token(service)?);
        Ok(Self::new(Kind::Up, &[("name", &node), ("role", role.as_str()), ("service", &service)]))
    }

    /// The subject of one member. Nodes have subjects of their own kind.
    ///
    /// # Errors
    /// For a method that cannot be part of a subject.
    pub fn member(to: &Identity, method: &str) -> Result<Self, BadName> {
        let method = name::token(method)?;
        if to.role() == Role::Node {
            return Ok(Self::new(Kind::Node, &[("name", to.token()), ("method", &method)]));
        }
        Ok(Self::new(Kind::Member, &[("role", to.role().as_str()), ("name", to.token()), ("method", &method)]))
    }

    /// The subject of lossy wake-ups on a topic.
    ///
    /// # Errors
    /// For a topic that cannot be part of a subject.
    pub fn hint(topic: &str) -> Result<Self, BadName> {
        Ok(Self::new(Kind::Hint, &[("topic", &name::token(topic)?)]))
    }

    /// The subject of a topic for the members of a role.
    ///
    /// # Errors
    /// For a topic that cannot be part of a subject.
    pub fn feed(role: Role, topic: &str) -> Result<Self, BadName> {
        Ok(Self::new(Kind::Feed, &[("role", role.as_str()), ("topic", &name::token(topic)?)]))
    }

    pub(crate) fn sync() -> Self {
        Self::new(Kind::Sync, &[])
    }

    /// Parses a subject; `None` when it belongs to no row of the table.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let row = table().find(|row| row.matches(text))?;
        Some(Self { kind: row.kind, text: text.into() })
    }

    /// Returns the subject's row of the table.
    #[must_use]
    pub fn row(&self) -> &'static Row {
        self.kind.row()
    }

    /// Returns the subject as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.row().value(&self.text, name)
    }

    /// Returns the last token: a method, service or topic.
    #[must_use]
    pub fn method(&self) -> &str {
        self.text.rsplit('.').next().unwrap_or_default()
    }

    /// Returns the role in the subject.
    #[must_use]
    pub fn role(&self) -> Option<Role> {
        Role::from_token(self.field("role")?)
    }

    /// Returns the member or node in the subject.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        name::from_token(self.field("name")?)
    }

    /// Returns the unit in the subject.
    #[must_use]
    pub fn unit_name(&self) -> Option<String> {
        name::from_token(self.field("unit")?)
    }

    /// Returns the epoch in the subject.
    #[must_use]
    pub fn epoch(&self) -> Option<Revision> {
        self.field("epoch")?.strip_prefix('e')?.parse().ok()
    }

    /// Returns the sender in the subject: the server lets no other member publish to it.
    #[must_use]
    pub fn sender(&self) -> Option<Identity> {
        let role = match self.kind {
            Kind::Presence => self.role()?,
            Kind::Up => Role::Node,
            _ => return None,
        };
        Identity::from_token(role, self.field("name")?)
    }
}

impl Pattern {
    fn new(kind: Kind, fields: &[(&str, &str)]) -> Self {
        Self { kind, text: render(kind, fields) }
    }

    /// All members' presence.
    #[must_use]
    pub fn presence() -> Self {
        Self::new(Kind::Presence, &[])
    }

    /// Presence of one role's members.
    #[must_use]
    pub fn presence_of(role: Role) -> Self {
        Self::new(Kind::Presence, &[("role", role.as_str())])
    }

    /// Every method of a unit, for its holder since `epoch`.
    ///
    /// # Errors
    /// For a name that cannot be part of a subject.
    pub fn unit(role: Role, unit: &str, epoch: Revision) -> Result<Self, BadName> {
        let (unit, epoch) = (name::token(unit)?, epoch_token(epoch));
        Ok(Self::new(Kind::Unit, &[("role", role.as_str()), ("unit", &unit), ("epoch", &epoch)]))
    }

    /// A service, for the members that offer it.
    ///
    /// # Errors
    /// For a name that cannot be part of a subject.
    pub fn service(role: Role, service: &str) -> Result<Self, BadName> {
        Ok(Self::new(Kind::Service, &[("role", role.as_str()), ("service", &name::token(service)?)]))
    }

    /// A service to nodes, for the members that offer it.
    ///
    /// # Errors
    /// For a name that cannot be part of a subject.
    pub fn up(role: Role, service: &str) -> Result<Self, BadName> {
        Ok(Self::new(Kind::Up, &[("role", role.as_str()), ("service", &name::token(service)?)]))
    }

    /// Every method of a member, for that member. Nodes have subjects of their own kind.
    #[must_use]
    pub fn member(of: &Identity) -> Self {
        if of.role() == Role::Node {
            return Self::new(Kind::Node, &[("name", of.token())]);
        }
        Self::new(Kind::Member, &[("role", of.role().as_str()), ("name", of.token())])
    }

    /// Wake-ups on a topic.
    ///
    /// # Errors
    /// For a topic that cannot be part of a subject.
    pub fn hint(topic: &str) -> Result<Self, BadName> {
        Ok(Self::new(Kind::Hint, &[("topic", &name::token(topic)?)]))
    }

    /// Messages on a topic to the members of a role.
    ///
    /// # Errors
    /// For a topic that cannot be part of a subject.
    pub fn feed(role: Role, topic: &str) -> Result<Self, BadName> {
        Ok(Self::new(Kind::Feed, &[("role", role.as_str()), ("topic", &name::token(topic)?)]))
    }

    /// Returns the pattern's row of the table.
    #[must_use]
    pub fn row(&self) -> &'static Row {
        self.kind.row()
    }

    /// Returns the pattern as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern selects a subject.
    #[must_use]
    pub fn selects(&self, subject: &str) -> bool {
        let mut tokens = subject.split('.');
        self.text.split('.').all(|own| tokens.next().is_some_and(|token| own == "*" || own == token))
            && tokens.next().is_none()
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_say_what_they_were_made_of() {
        let unit = Subject::unit(Role::Scheduler, "arbiter", Revision(12), "propose").unwrap();
        assert_eq!(unit.as_str(), "ol.unit.scheduler.arbiter.e12.propose");
        assert_eq!(Subject::parse(unit.as_str()), Some(unit.clone()));
        assert_eq!(
            (unit.epoch(), unit.unit_name().as_deref(), unit.method()),
            (Some(Revision(12)), Some("arbiter"), "propose")
        );
        assert_eq!(unit.sender(), None);
        let up = Subject::up("a.b", Role::Controllers, "drained").unwrap();
        assert_eq!(up.as_str(), "ol.up.a_b.controllers.drained");
        assert_eq!(up.sender(), Some(Identity::new(Role::Node, "a.b").unwrap()));
    }

    #[test]
    fn a_pattern_selects_the_subjects_of_its_row_and_epoch() {
        let holder = Pattern::unit(Role::Scheduler, "arbiter", Revision(12)).unwrap();
        let to = |epoch| Subject::unit(Role::Scheduler, "arbiter", Revision(epoch), "propose").unwrap();
        assert!(holder.selects(to(12).as_str()));
        assert!(!holder.selects(to(13).as_str()) && !holder.selects(to(1).as_str()));
        assert!(
            !holder.selects("ol.unit.scheduler.arbiter.e12") && !holder.selects("ol.unit.scheduler.arbiter.e12.a.b")
        );
    }

    #[test]
    fn what_the_table_does_not_have_is_no_subject() {
        for text in ["", "ol", "ol.x", "ol.hint", "ol.unit.a.b.c", "ol.node.a.b.c", "_INBOX_node.a.b", "ol.hint.a b.c"]
        {
            assert_eq!(Subject::parse(text), None, "{text}");
        }
    }
}

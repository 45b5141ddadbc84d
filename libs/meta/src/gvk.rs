//! Groups, versions, kinds and resources: the coordinates of every API object.
//!
//! The fields are [`CompactString`]s: every built-in name is at most 24 bytes, so clones of them do not allocate.

use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// The error for a text that is no valid `apiVersion` because it contains more than one slash.
///
/// The text is upstream's (`schema.ParseGroupVersion`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {0}")]
pub struct ParseGroupVersionError(pub String);

/// An API group with one of its versions: the content of `apiVersion`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersion {
    /// The group, empty for the core group.
    pub group: CompactString,
    /// The version, such as `v1`.
    pub version: CompactString,
}

impl GroupVersion {
    /// Makes a group and version from any text.
    pub fn new(group: impl Into<CompactString>, version: impl Into<CompactString>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Makes a group and version from constant text, usable in tables.
    #[must_use]
    pub const fn from_static(group: &'static str, version: &'static str) -> Self {
        Self { group: CompactString::const_new(group), version: CompactString::const_new(version) }
    }

    /// Reads an `apiVersion`: `v1` or `apps/v1`. Empty text and `/` give the empty group-version, as upstream.
    ///
    /// # Errors
    /// [`ParseGroupVersionError`] when there is more than one slash.
    pub fn parse(text: &str) -> Result<Self, ParseGroupVersionError> {
        if text.is_empty() || text == "/" {
            return Ok(Self::default());
        }
        match text.split_once('/') {
            None => Ok(Self::new("", text)),
            Some((_, rest)) if rest.contains('/') => Err(ParseGroupVersionError(text.to_owned())),
            Some((group, version)) => Ok(Self::new(group, version)),
        }
    }

    /// Returns the kind `kind` in this group and version.
    pub fn with_kind(&self, kind: impl Into<CompactString>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    /// Returns the resource `resource` in this group and version.
    pub fn with_resource(&self, resource: impl Into<CompactString>) -> GroupVersionResource {
        GroupVersionResource { group: self.group.clone(), version: self.version.clone(), resource: resource.into() }
    }

    /// Whether both parts are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.version.is_empty()
    }
}

/// Prints the `apiVersion`: `apps/v1`, or `v1` in the core group.
impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.version) } else { write!(f, "{}/{}", self.group, self.version) }
    }
}

impl std::str::FromStr for GroupVersion {
    type Err = ParseGroupVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// A kind in a group, independent of the version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupKind {
    /// The group, empty for the core group.
    pub group: CompactString,
    /// The kind, such as `Pod`.
    pub kind: CompactString,
}

impl GroupKind {
    /// Makes a group and kind from any text.
    pub fn new(group: impl Into<CompactString>, kind: impl Into<CompactString>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }

    /// Makes a group and kind from constant text, usable in tables.
    #[must_use]
    pub const fn from_static(group: &'static str, kind: &'static str) -> Self {
        Self { group: CompactString::const_new(group), kind: CompactString::const_new(kind) }
    }
}

/// Prints `Deployment.apps`, or `Pod` in the core group.
impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.group)
    }
}

/// A resource in a group, independent of the version. Error texts name objects with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupResource {
    /// The group, empty for the core group.
    pub group: CompactString,
    /// The plural resource name, such as `pods`.
    pub resource: CompactString,
}

impl GroupResource {
    /// Makes a group and resource from any text.
    pub fn new(group: impl Into<CompactString>, resource: impl Into<CompactString>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Makes a group and resource from constant text, usable in tables.
    #[must_use]
    pub const fn from_static(group: &'static str, resource: &'static str) -> Self {
        Self { group: CompactString::const_new(group), resource: CompactString::const_new(resource) }
    }

    /// Reads `deployments.apps` or `pods`; the first dot separates (upstream `schema.ParseGroupResource`).
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.split_once('.') {
            Some((resource, group)) => Self::new(group, resource),
            None => Self::new("", text),
        }
    }

    /// Returns this resource in a version.
    pub fn with_version(&self, version: impl Into<CompactString>) -> GroupVersionResource {
        GroupVersionResource { group: self.group.clone(), version: version.into(), resource: self.resource.clone() }
    }

    /// Whether both parts are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.resource.is_empty()
    }
}

/// Prints `deployments.apps`, or `pods` in the core group.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.group)
    }
}

/// A kind in a version of a group: the type of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersionKind {
    /// The group, empty for the core group.
    pub group: CompactString,
    /// The version, such as `v1`.
    pub version: CompactString,
    /// The kind, such as `Pod`.
    pub kind: CompactString,
}

impl GroupVersionKind {
    /// Makes a kind from any text.
    pub fn new(
        group: impl Into<CompactString>,
        version: impl Into<CompactString>,
        kind: impl Into<CompactString>,
    ) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Makes a kind from constant text, usable in tables.
    #[must_use]
    pub const fn from_static(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self {
            group: CompactString::const_new(group),
            version: CompactString::const_new(version),
            kind: CompactString::const_new(kind),
        }
    }

    /// Returns the kind that an object's `apiVersion` and `kind` name.
    ///
    /// # Errors
    /// [`ParseGroupVersionError`] when `api_version` has more than one slash.
    pub fn parse(api_version: &str, kind: &str) -> Result<Self, ParseGroupVersionError> {
        Ok(GroupVersion::parse(api_version)?.with_kind(kind))
    }

    /// Returns the group and version.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// Returns the group and kind.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// Returns the `apiVersion` text of objects of this kind.
    #[must_use]
    pub fn api_version(&self) -> CompactString {
        api_version(&self.group, &self.version)
    }
}

/// Prints `apps/v1, Kind=Deployment`, as upstream does.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A resource in a version of a group: the target of a request path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersionResource {
    /// The group, empty for the core group.
    pub group: CompactString,
    /// The version, such as `v1`.
    pub version: CompactString,
    /// The plural resource name, such as `pods`.
    pub resource: CompactString,
}

impl GroupVersionResource {
    /// Makes a resource from any text.
    pub fn new(
        group: impl Into<CompactString>,
        version: impl Into<CompactString>,
        resource: impl Into<CompactString>,
    ) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// Makes a resource from constant text, usable in tables.
    #[must_use]
    pub const fn from_static(group: &'static str, version: &'static str, resource: &'static str) -> Self {
        Self {
            group: CompactString::const_new(group),
            version: CompactString::const_new(version),
            resource: CompactString::const_new(resource),
        }
    }

    /// Returns the group and version.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// Returns the group and resource.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }

    /// Returns the `apiVersion` text of objects of this resource.
    #[must_use]
    pub fn api_version(&self) -> CompactString {
        api_version(&self.group, &self.version)
    }
}

/// Prints `apps/v1, Resource=deployments`, as upstream does.
impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

fn api_version(group: &str, version: &str) -> CompactString {
    if group.is_empty() { version.into() } else { compact_str::format_compact!("{group}/{version}") }
}

fn dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(name) } else { write!(f, "{name}.{group}") }
}

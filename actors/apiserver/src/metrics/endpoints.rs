//! The endpoints that requests are counted by: resources with their subresources, and the paths of health checks. All others count as one.

use std::sync::LazyLock;

use oarlock_schema::{RESOURCES, Resource};

/// An endpoint, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Endpoint(usize);

impl Endpoint {
    /// The endpoint of all that are unknown.
    pub(super) const NONE: Self = Self(0);
}

/// Labels of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) resource: &'static str,
    pub(super) subresource: &'static str,
    /// `apiserver` for resources; upstream's health checks have no component.
    pub(super) component: &'static str,
}

/// Paths with a label of their own, as upstream's health checks have it in the place of a subresource.
const PATHS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// The endpoints, and for each resource the index of its first one.
struct Table {
    facts: Vec<Facts>,
    first: Vec<usize>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let path = |subresource| Facts { group: "", version: "", resource: "", subresource, component: "" };
    // The first endpoint stands for all that are unknown.
    let mut facts: Vec<Facts> = [""].into_iter().chain(PATHS).map(path).collect();
    let mut first = Vec::new();
    for row in RESOURCES {
        first.push(facts.len());
        let subresources = row.subresources.iter().map(|known| known.name);
        facts.extend([""].into_iter().chain(subresources).map(|subresource| Facts {
            group: row.group,
            version: row.version,
            resource: row.plural,
            subresource,
            component: "apiserver",
        }));
    }
    Table { facts, first }
});

impl Endpoint {
    /// Returns the endpoint of a path that names no resource.
    pub(super) fn of_path(path: &str) -> Self {
        Self(PATHS.iter().position(|known| *known == path).map_or(0, |at| at + 1))
    }

    /// Returns the endpoint of a resource; a subresource that the resource does not have counts as none.
    pub(super) fn of_resource(group: &str, version: &str, plural: &str, subresource: &str) -> Self {
        oarlock_schema::resource(group, version, plural).map_or(Self(0), |row| Self::of_row(row, subresource))
    }

    /// Returns the endpoint of a resource, likewise.
    pub(super) fn of_row(row: &'static Resource, subresource: &str) -> Self {
        let Some(first) = index(row).and_then(|at| TABLE.first.get(at)) else { return Self(0) };
        let known = row.subresources.iter().position(|known| known.name == subresource);
        Self(first + known.map_or(0, |at| at + 1))
    }

    /// Returns the index of the endpoint, below [`count`].
    pub(super) const fn index(self) -> usize {
        self.0
    }
}

/// Returns the number of endpoints.
pub(super) fn count() -> usize {
    TABLE.facts.len()
}

/// Returns the labels of all endpoints, by index.
pub(super) fn facts() -> &'static [Facts] {
    &TABLE.facts
}

/// Returns the position of a row in the table that it belongs to, from its address.
fn index(row: &'static Resource) -> Option<usize> {
    let bytes = std::ptr::from_ref(row).addr().checked_sub(RESOURCES.as_ptr().addr())?;
    Some(bytes / size_of::<Resource>()).filter(|at| RESOURCES.get(*at).is_some_and(|known| std::ptr::eq(known, row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(endpoint: Endpoint) -> (&'static str, &'static str, &'static str) {
        let facts = facts()[endpoint.index()];
        (facts.group, facts.resource, facts.subresource)
    }

    #[test]
    fn every_endpoint_is_found_by_its_names() {
        for row in RESOURCES {
            let of = |subresource| Endpoint::of_resource(row.group, row.version, row.plural, subresource);
            assert_eq!(named(of("")), (row.group, row.plural, ""));
            for known in row.subresources {
                assert_eq!(named(of(known.name)), (row.group, row.plural, known.name));
            }
            assert_eq!(of("made-up"), of(""));
        }
        assert_eq!(named(Endpoint::of_path("/readyz")), ("", "", "/readyz"));
        for path in ["/readyz/etcd", "/made/up", ""] {
            assert_eq!(named(Endpoint::of_path(path)), ("", "", ""));
        }
        assert_eq!(named(Endpoint::of_resource("made.up", "v1", "pods", "")), ("", "", ""));
    }
}

//! Checks that the tables of layers name existing crates: a row of a renamed or missing crate would forbid nothing.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::Package;

use super::{CLIENT_SIDE, LIBS, OWNERS, SERVER_SIDE, layer};

/// The layer whose actors each are on one side of the API.
const SIDED: u64 = 4;

/// The crates of the workspace and of the registry, with which the tables are compared.
#[derive(Default)]
pub(super) struct Crates {
    /// The dependencies of each crate of the workspace.
    needs: BTreeMap<String, BTreeSet<String>>,
    /// Actors of the layer in which each has a side.
    sided: Vec<String>,
}

impl Crates {
    pub(super) fn of(packages: &[Package]) -> Self {
        let needs = |package: &Package| package.dependencies.iter().map(|needed| needed.name.clone()).collect();
        Self {
            needs: packages.iter().map(|package| (package.name.to_string(), needs(package))).collect(),
            sided: packages.iter().filter(|p| layer(p) == Some(SIDED)).map(|p| p.name.to_string()).collect(),
        }
    }
}

/// A line for each name in the tables that is no crate, each owner that does not use what it owns, and each actor without a side.
pub(super) fn unknown(crates: &Crates) -> Vec<String> {
    let mut findings = Vec::new();
    for (third, owners) in OWNERS {
        for owner in *owners {
            match crates.needs.get(*owner) {
                None => findings.push(format!("OWNERS: {third} belongs to {owner}, which is no crate")),
                Some(needs) if !needs.contains(*third) => {
                    findings.push(format!("OWNERS: {third} belongs to {owner}, which does not depend on it"));
                }
                Some(_) => {}
            }
        }
    }
    for (table, names) in [("LIBS", LIBS), ("CLIENT_SIDE", CLIENT_SIDE), ("SERVER_SIDE", SERVER_SIDE)] {
        let missing = names.iter().filter(|name| !crates.needs.contains_key(&format!("oarlock-{name}")));
        findings.extend(missing.map(|name| format!("{table}: oarlock-{name} is no crate")));
    }
    for actor in &crates.sided {
        let short = actor.trim_start_matches("oarlock-");
        if CLIENT_SIDE.contains(&short) == SERVER_SIDE.contains(&short) {
            findings.push(format!("{actor}: in neither or both of CLIENT_SIDE and SERVER_SIDE"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{CLIENT_SIDE, Crates, LIBS, OWNERS, SERVER_SIDE, unknown};

    /// Returns the crates that the tables name.
    fn crates() -> Crates {
        let mut crates = Crates::default();
        for name in LIBS.iter().chain(CLIENT_SIDE).chain(SERVER_SIDE) {
            crates.needs.entry(format!("oarlock-{name}")).or_default();
        }
        for (third, owners) in OWNERS {
            for owner in *owners {
                crates.needs.entry((*owner).to_owned()).or_default().insert((*third).to_owned());
            }
        }
        crates
    }

    #[test]
    fn every_name_in_the_tables_is_a_crate() {
        assert!(unknown(&crates()).is_empty());
        let mut less = crates();
        less.needs.remove("oarlock-storage");
        assert_eq!(
            unknown(&less),
            ["OWNERS: redb belongs to oarlock-storage, which is no crate", "LIBS: oarlock-storage is no crate"]
        );
        less.needs.entry("oarlock-storage".to_owned()).or_default();
        assert_eq!(unknown(&less), ["OWNERS: redb belongs to oarlock-storage, which does not depend on it"]);
    }

    #[test]
    fn an_actor_has_a_side() {
        let mut crates = crates();
        crates.sided = vec!["oarlock-auth".to_owned(), "oarlock-audit".to_owned()];
        assert_eq!(unknown(&crates), ["oarlock-audit: in neither or both of CLIENT_SIDE and SERVER_SIDE"]);
    }
}

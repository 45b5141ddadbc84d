//! `known-differences.toml`: answers that are known to differ, grouped by cause. The list may only shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

const HEAD: &str = "# Answers that are known to differ from upstream's, grouped by cause. The list may only shrink: \
                    `cargo xtask oracle check --prune`.\n\n";

/// Cases by reason.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The known differences, one entry for each cause.
    #[serde(default)]
    pub difference: Vec<Difference>,
}

/// Known differences with one cause.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Why the answers differ, and the change that would end the difference.
    pub reason: String,
    /// `folder/file/step` of each answer that differs for this reason.
    pub cases: BTreeSet<String>,
}

impl Known {
    /// Reads the list; an absent file is an empty list.
    ///
    /// # Errors
    /// When the file is malformed, gives no reason, or names a case twice.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        if !file.exists() {
            return Ok(Self::default());
        }
        let known: Self =
            toml::from_str(&std::fs::read_to_string(file)?).with_context(|| file.display().to_string())?;
        let mut seen = BTreeSet::new();
        for difference in &known.difference {
            if difference.reason.trim().is_empty() {
                bail!("{}: a difference has no reason", file.display());
            }
            if let Some(twice) = difference.cases.iter().find(|case| !seen.insert((*case).clone())) {
                bail!("{}: {twice} is listed twice", file.display());
            }
        }
        Ok(known)
    }

    /// Writes the list.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, file: &Path) -> anyhow::Result<()> {
        std::fs::write(file, format!("{HEAD}{}", toml::to_string_pretty(self)?))
            .with_context(|| file.display().to_string())
    }

    /// Returns the reason of each listed case.
    #[must_use]
    pub fn by_case(&self) -> BTreeMap<&str, &str> {
        let mut cases = BTreeMap::new();
        for difference in &self.difference {
            cases.extend(difference.cases.iter().map(|case| (case.as_str(), difference.reason.as_str())));
        }
        cases
    }

    /// Leaves out the cases that `keep` refuses, and reasons without cases.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        for difference in &mut self.difference {
            difference.cases.retain(|case| keep(case));
        }
        self.difference.retain(|difference| !difference.cases.is_empty());
    }
}

//! The builds that are compared.

use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, ensure};

use crate::args::{Args, Beside};
use crate::machine::{changed, git};

/// How many changed files a report names.
const NAMED: usize = 20;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// What a verdict compares with.
    Base,
    /// What a verdict is about.
    Today,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Base, Self::Today];
}

/// The programs of one side.
#[derive(Clone, Debug)]
pub(crate) struct Build {
    /// The side's name in tables.
    pub(crate) name: String,
    /// The sources of the build, as text for people.
    about: String,
    /// The executable to measure.
    pub(crate) oarlock: PathBuf,
    /// This side's load tests.
    pub(crate) loadtests: PathBuf,
}

/// Both sides.
#[derive(Clone, Debug)]
pub(crate) struct Builds {
    base: Build,
    today: Build,
    /// Drives the executables of both: today's load tests, built with the profile of what is compared with.
    pub(crate) driver: PathBuf,
}

impl Builds {
    /// Builds what is not built yet.
    ///
    /// # Errors
    /// When something does not compile, or there is no such commit.
    pub(crate) async fn make(args: &Args, beside: Beside<'_>) -> anyhow::Result<Self> {
        let profile = args.profile();
        let tree = today()?;
        match beside {
            Beside::Commit(reference) => {
                let commit = git(&["rev-parse", "--short", "--verify", &format!("{reference}^{{commit}}")]);
                let commit = commit.with_context(|| format!("{reference} is no commit here"))?;
                let base = Build::make(&commit, format!("profile {profile}"), Some(&commit), profile).await?;
                let mut today = Build::make("today", format!("{tree}, profile {profile}"), None, profile).await?;
                if let Some(file) = &args.oarlock {
                    today.oarlock.clone_from(file);
                    today.about += &format!(", but the executable {}", file.display());
                }
                Ok(Self { driver: today.loadtests.clone(), base, today })
            }
            Beside::Profile(other) => {
                ensure!(other != profile, "both profiles are {profile}");
                let base = Build::make(profile, tree.clone(), None, profile).await?;
                let today = Build::make(other, tree, None, other).await?;
                Ok(Self { driver: base.loadtests.clone(), base, today })
            }
        }
    }

    /// Programs in the folders `base` and `today` of this one.
    #[cfg(test)]
    pub(crate) fn fake(folder: &std::path::Path) -> Self {
        let [base, today] = ["base", "today"].map(|name| Build {
            name: name.to_owned(),
            about: String::new(),
            oarlock: folder.join(name).join("oarlock"),
            loadtests: folder.join(name).join("oarlock-loadtests"),
        });
        Self { driver: today.loadtests.clone(), base, today }
    }

    /// One side's.
    pub(crate) const fn of(&self, side: Side) -> &Build {
        match side {
            Side::Base => &self.base,
            Side::Today => &self.today,
        }
    }
}

impl fmt::Display for Builds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [base, today] = Side::BOTH.map(|side| format!("{}: {}.", self.of(side).name, self.of(side).about));
        write!(f, "{base}\n{today}")
    }
}

impl Build {
    /// Builds the programs of a commit, or without one of today's tree.
    async fn make(name: &str, about: String, commit: Option<&str>, profile: &str) -> anyhow::Result<Self> {
        let mut chore = tokio::process::Command::from(oarlock_testkit::cargo());
        // Both programs at once: with one of them alone cargo would choose other features for some crates, and build these again for the other.
        chore.args(["xtask", "executables", "oarlock", "oarlock-loadtests", "--profile", profile]);
        chore.args(commit.into_iter().flat_map(|commit| ["--commit", commit]));
        let chore = chore.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let output = chore.wait_with_output().await?;
        ensure!(output.status.success(), "{name} does not build");
        let said = String::from_utf8_lossy(&output.stdout);
        let folder = PathBuf::from(said.lines().last().context("cargo xtask executables printed no folder")?);
        let (oarlock, loadtests) = (folder.join("oarlock"), folder.join("oarlock-loadtests"));
        Ok(Self { name: name.to_owned(), about, oarlock, loadtests })
    }
}

/// Today's tree, for people.
fn today() -> anyhow::Result<String> {
    let commit = git(&["rev-parse", "--short", "HEAD"]).context("this is no work tree of git")?;
    let files = changed();
    let mut shown = files.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if files.len() > NAMED {
        shown += &format!(" and {} more", files.len() - NAMED);
    }
    Ok(if files.is_empty() { format!("commit {commit}") } else { format!("commit {commit} with changes to {shown}") })
}

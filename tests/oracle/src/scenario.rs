//! Scenarios: steps that build on each other, made from the scripts under `cases/`.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::case::{Script, Step};
use crate::generate;

/// Steps in the order in which they are played.
#[derive(Debug)]
pub struct Scenario {
    /// `folder/file` of the script.
    pub name: String,
    /// The script's own steps.
    pub steps: Vec<Step>,
    /// See [`Script::unsettled`].
    pub unsettled: bool,
}

/// All scenarios under `cases`, by name, that begin with `only`.
///
/// # Errors
/// When a script cannot be read, names an unknown resource, or two steps have the same name.
pub fn load(cases: &Path, only: &str) -> anyhow::Result<Vec<Scenario>> {
    let mut files = Vec::new();
    for folder in std::fs::read_dir(cases).with_context(|| cases.display().to_string())? {
        for file in std::fs::read_dir(folder?.path())? {
            files.push(file?.path());
        }
    }
    // The scenarios about the server's initial state are played before any scenario that makes objects.
    files.sort_by_key(|file| (!file.starts_with(cases.join("server")), file.clone()));
    let scenarios = files.iter().map(one).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(scenarios.into_iter().filter(|scenario| scenario.name.starts_with(only)).collect())
}

fn one(file: &PathBuf) -> anyhow::Result<Scenario> {
    let text = std::fs::read_to_string(file)?;
    let script: Script = serde_norway::from_str(&text).with_context(|| file.display().to_string())?;
    let part = |path: Option<&std::ffi::OsStr>| path.unwrap_or_default().to_string_lossy().into_owned();
    let name = format!("{}/{}", part(file.parent().and_then(Path::file_name)), part(file.file_stem()));
    let unsettled = script.unsettled;
    let steps = generate::steps(script).with_context(|| name.clone())?;
    let mut ids: Vec<_> = steps.iter().map(|step| step.id.as_str()).collect();
    ids.sort_unstable();
    if let Some(twice) = ids.windows(2).find(|pair| pair.first() == pair.last()) {
        bail!("{name}: two steps are called {:?}", twice.first());
    }
    Ok(Scenario { name, steps, unsettled })
}

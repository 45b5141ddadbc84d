//! Scenarios: steps that build on each other, read from the scripts under `cases/`.
//!
//! A script of a resource gives a `minimal` and a `full` object; the steps that every resource has in common are made from them. Its own
//! `steps` follow while both objects are there. A script without a resource has only its own steps.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::generate;

/// One request of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Step {
    /// Name within the scenario, which also names the recorded answer.
    pub id: String,
    /// Method, a space, path and query. `{list}`, `{minimal}` and `{full}` stand for the resource's paths, `{STEP:/pointer}` for a text
    /// in the answer of an earlier step.
    #[serde(rename = "do")]
    pub what: String,
    /// The Accept header; JSON when absent.
    pub accept: Option<String>,
    /// The Content-Type header; JSON when absent and there is a body.
    pub content: Option<String>,
    /// The body as a value.
    pub body: Option<Value>,
    /// The body as text, sent unchanged.
    pub text: Option<String>,
    /// The body is that of an earlier step's answer.
    pub from: Option<String>,
    /// A JSON merge patch of `from`, or of `body`.
    pub set: Option<Value>,
}

impl Step {
    /// A step without a body.
    #[must_use]
    pub fn new(id: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            what: what.into(),
            accept: None,
            content: None,
            body: None,
            text: None,
            from: None,
            set: None,
        }
    }

    /// Adds a body.
    #[must_use]
    pub fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Adds a body that is text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Adds the body of an earlier answer, changed by a merge patch.
    #[must_use]
    pub fn from(mut self, step: &str, set: Value) -> Self {
        self.from = Some(step.to_owned());
        self.set = Some(set);
        self
    }

    /// Adds an Accept header.
    #[must_use]
    pub fn accept(mut self, media: &str) -> Self {
        self.accept = Some(media.to_owned());
        self
    }

    /// Adds a Content-Type header.
    #[must_use]
    pub fn content(mut self, media: &str) -> Self {
        self.content = Some(media.to_owned());
        self
    }
}

/// What a script says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Script {
    /// `group/version/plural`, or `version/plural` for core.
    pub resource: Option<String>,
    /// The least that can be created.
    pub minimal: Option<Value>,
    /// The full object: as many fields as make sense in one object.
    pub full: Option<Value>,
    /// Steps before all others.
    pub before: Vec<Step>,
    /// Steps between the common ones and the deletions.
    pub steps: Vec<Step>,
    /// Steps after the deletions.
    pub after: Vec<Step>,
    /// Upstream itself writes to these objects in the background: status, revisions and its finalizers are left out of the answers.
    pub unsettled: bool,
    /// Common steps whose answers depend on the moment.
    pub without: Vec<String>,
}

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

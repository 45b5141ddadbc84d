//! The scripts under `cases/` and their steps.
//!
//! A script of a resource gives a `minimal` and a `full` object; the steps that every resource has in common are made from them. Its own
//! `steps` follow while both objects are there. A script without a resource has only its own steps.

use serde::Deserialize;
use serde_json::Value;

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
    /// Name of the user as whom the request is sent; the administrator when absent.
    #[serde(rename = "as")]
    pub user: Option<String>,
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
            user: None,
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

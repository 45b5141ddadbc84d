//! Recorded answers: one sorted JSON file a scenario, so that a change of one answer is a change of few lines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A normalised answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Status code.
    pub code: u16,
    /// The headers that carry meaning, in a fixed order.
    pub headers: Vec<(String, String)>,
    /// The body as a value; text where it is no JSON or YAML; a list of events where it is a watch.
    pub body: Value,
}

/// An answer in the file: a body that an earlier step already had is named instead of repeated.
#[derive(Serialize, Deserialize)]
struct Kept {
    code: u16,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    same: Option<String>,
}

/// The defaults of an answer, which the files leave out.
const USUAL: (&str, &str) = ("content-type", "application/json");

/// Returns the path of a scenario's recorded answers.
#[must_use]
pub fn path(folder: &Path, scenario: &str) -> PathBuf {
    folder.join(format!("{scenario}.json"))
}

/// Writes a scenario's answers.
///
/// # Errors
/// When the file cannot be written.
pub fn write(file: &Path, answers: &[(String, Answer)]) -> anyhow::Result<()> {
    let mut kept = BTreeMap::new();
    for (at, (id, answer)) in answers.iter().enumerate() {
        let earlier = answers.iter().take(at).find(|(_, earlier)| earlier.body == answer.body);
        let small = answer.body.as_object().is_none_or(|body| body.len() < 2);
        let same = earlier.filter(|_| !small).map(|(id, _)| id.clone());
        let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in answer.headers.iter().filter(|(name, value)| (name.as_str(), value.as_str()) != USUAL) {
            headers.entry(name.clone()).or_default().push(value.clone());
        }
        let body = same.is_none().then(|| answer.body.clone());
        kept.insert(id.clone(), Kept { code: answer.code, headers, body, same });
    }
    let mut text = Vec::new();
    let mut writer =
        serde_json::Serializer::with_formatter(&mut text, serde_json::ser::PrettyFormatter::with_indent(b" "));
    serde_json::to_value(&kept)?.serialize(&mut writer)?;
    text.push(b'\n');
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(file, text).with_context(|| file.display().to_string())
}

/// Reads a scenario's answers by step.
///
/// # Errors
/// When the file is missing, is no JSON, or names a step that it does not hold.
pub fn read(file: &Path) -> anyhow::Result<BTreeMap<String, Answer>> {
    let text = std::fs::read(file).with_context(|| format!("{}: run `cargo xtask oracle record`", file.display()))?;
    let kept: BTreeMap<String, Kept> = serde_json::from_slice(&text)?;
    let mut answers = BTreeMap::new();
    for (id, one) in &kept {
        let body = match &one.same {
            Some(same) => {
                kept.get(same).and_then(|k| k.body.clone()).with_context(|| format!("{id}: no body in {same}"))?
            }
            None => one.body.clone().unwrap_or_default(),
        };
        let mut headers: Vec<(String, String)> = Vec::new();
        if !one.headers.contains_key(USUAL.0) {
            headers.push((USUAL.0.to_owned(), USUAL.1.to_owned()));
        }
        for (name, values) in &one.headers {
            headers.extend(values.iter().map(|value| (name.clone(), value.clone())));
        }
        headers.sort();
        answers.insert(id.clone(), Answer { code: one.code, headers, body });
    }
    Ok(answers)
}

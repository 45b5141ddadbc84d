//! Plays scenarios: composes each step's request from the script and from earlier answers, sends it, reads the answer.

use std::collections::HashMap;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::case::Step;
use crate::merge_patch::merge;
use crate::normalise::Normaliser;
use crate::recorded::Answer;
use crate::scenario::Scenario;
use crate::transport::{Connection, Reply};

const JSON: &str = "application/json";
/// How warnings begin that only this server gives: what they are about upstream does, and we do not yet.
const OWN: &str = "299 - \"oarlock: ";
/// Headers that belong to the answer's meaning.
const HEADERS: &[&str] = &["content-type", "warning", "retry-after", "location", "allow"];

/// The namespace in which the scripts' objects live, with what a pod needs to be admitted there. Nothing of this is recorded.
///
/// # Errors
/// When the server refuses.
pub async fn prepare(connection: &Connection) -> anyhow::Result<()> {
    let wanted = [
        ("/api/v1/namespaces", json!({"metadata": {"name": "oracle"}})),
        ("/api/v1/namespaces/oracle/serviceaccounts", json!({"metadata": {"name": "default"}})),
    ];
    for (path, body) in wanted {
        let step = Step::new("prepare", format!("POST {path}")).body(body);
        let reply = connection.send(request(&step, &HashMap::new())?).await?;
        if !matches!(reply.code, 201 | 409) {
            bail!("{path}: {} {}", reply.code, String::from_utf8_lossy(&reply.body));
        }
    }
    Ok(())
}

/// The normalised answers to a scenario's steps, in order.
///
/// # Errors
/// When the server does not answer at all, or a step names an earlier one that is not there.
pub async fn play(connection: &Connection, scenario: &Scenario) -> anyhow::Result<Vec<(String, Answer)>> {
    let mut raw = HashMap::new();
    let mut names = Normaliser::new(connection.authority(), scenario.unsettled);
    let mut answers = Vec::with_capacity(scenario.steps.len());
    for step in &scenario.steps {
        let place = || format!("{} {}: {}", scenario.name, step.id, step.what);
        let request = request(step, &raw).with_context(place)?;
        let reply = connection.send(request).await.with_context(place)?;
        let mut answer = read(&reply);
        if let Value::Object(_) = answer.body {
            raw.insert(step.id.as_str(), answer.body.clone());
        }
        names.answer(&step.id, &mut answer);
        answers.push((step.id.clone(), answer));
    }
    Ok(answers)
}

fn is_own(header: &[u8]) -> bool {
    header.starts_with(OWN.as_bytes())
}

type Answers<'a> = HashMap<&'a str, Value>;

fn request(step: &Step, answers: &Answers) -> anyhow::Result<http::Request<Full<Bytes>>> {
    let what = fill(&step.what, answers);
    let (method, path) = what.split_once(' ').context("a step needs a method and a path")?;
    let mut body = match &step.from {
        // When the earlier answer was a failure, there is nothing to send; the step then shows a difference.
        Some(from) => Some(answers.get(from.as_str()).cloned().unwrap_or_default()),
        None => step.body.clone(),
    };
    if let (Some(body), Some(set)) = (&mut body, &step.set) {
        merge(body, set);
    }
    let bytes = match (&body, &step.text) {
        (Some(body), _) => Bytes::from(fill(&serde_json::to_string(body)?, answers)),
        (None, Some(text)) => Bytes::from(text.clone()),
        (None, None) => Bytes::new(),
    };
    let mut request = http::Request::builder().method(method).uri(path);
    let content = step.content.as_deref().or((!bytes.is_empty()).then_some(JSON));
    if let Some(content) = content.filter(|content| !content.is_empty()) {
        request = request.header(http::header::CONTENT_TYPE, content);
    }
    if let Some(user) = &step.user {
        request = request.header("impersonate-user", user);
    }
    Ok(request.header(http::header::ACCEPT, step.accept.as_deref().unwrap_or(JSON)).body(Full::new(bytes))?)
}

/// `{step:/pointer}` becomes the text there in that step's answer.
fn fill(text: &str, answers: &Answers) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let value = after.split_once('}').and_then(|(inner, rest)| {
            let (step, pointer) = inner.split_once(':')?;
            Some((answers.get(step)?.pointer(pointer)?.as_str()?, rest))
        });
        rest = match value {
            Some((value, rest)) => {
                filled.push_str(value);
                rest
            }
            None => {
                filled.push('{');
                after
            }
        };
    }
    filled.push_str(rest);
    filled
}

fn read(reply: &Reply) -> Answer {
    let mut headers: Vec<(String, String)> = Vec::new();
    for name in HEADERS {
        for value in reply.headers.get_all(*name).iter().filter(|value| !is_own(value.as_bytes())) {
            headers.push(((*name).to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        }
    }
    if !headers.iter().any(|(name, _)| name == "content-type") {
        headers.push(("content-type".to_owned(), String::new()));
    }
    headers.sort();
    let media = headers.iter().find(|(name, _)| name == "content-type").map_or("", |(_, value)| value.as_str());
    let text = || String::from_utf8_lossy(&reply.body).into_owned();
    let body = if media.starts_with("application/yaml") {
        serde_norway::from_slice(&reply.body).unwrap_or_else(|_| Value::String(text()))
    } else if media.starts_with(JSON) {
        values(&reply.body).unwrap_or_else(|| Value::String(text()))
    } else {
        Value::String(text())
    };
    Answer { code: reply.code, headers, body }
}

/// Parses a body: one value, or the events of a watch.
fn values(body: &[u8]) -> Option<Value> {
    let mut all = serde_json::Deserializer::from_slice(body).into_iter().collect::<Result<Vec<Value>, _>>().ok()?;
    if all.len() == 1 && all.first()?.get("object").is_none() { all.pop() } else { Some(Value::Array(all)) }
}

//! `oarlock trace`: shows the trace of an object's life in the terminal, from the spans that processes keep in memory.

mod ask;
mod explain;
mod objects;
mod plain;
mod rows;
mod shares;
mod spans;
#[cfg(test)]
mod tests;
mod waterfall;
mod words;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::bail;
use oarlock_config::Kubeconfig;
use oarlock_mesh::member_spans::{MemberReport, TraceReport};
use oarlock_runtime::clock;
use oarlock_telemetry::traces::Change;
use serde_json::json;

use self::explain::Stage;
use self::objects::{Family, Found};
use self::plain::plain;
use self::rows::Row;
use self::shares::Share;
use self::spans::Lives;
use crate::client;

/// Width of the output where there is no terminal.
const DEFAULT_WIDTH: usize = 110;
/// The most pods of a workload that are shown: those that are not Ready first, then the slowest.
const SHOWN_PODS: usize = 10;

/// Flags of `trace`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Trace {
    /// Object to show, such as pod/web, deploy/web, job/sum or node/n1. Kinds have the names that kubectl knows.
    #[arg(value_name = "KIND/NAME")]
    object: String,
    /// Namespace of the object. Without this flag that of the kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Kubeconfig of a user who may read the object and the path /debug/traces.
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Form of the output. JSON has the stages, the processes that were asked, and all spans as OTLP.
    #[arg(short, long, default_value = "text", value_parser = ["text", "json"])]
    output: String,
    /// Width of the text in characters. Without this flag that of the terminal.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(40..))]
    width: Option<u16>,
}

/// The picture of one object.
struct Shown {
    title: String,
    /// Whether the waterfall shows the change although no step of it is recorded: it goes on.
    goes_on: bool,
    rows: Vec<Row>,
    shares: Vec<Share>,
    stage: Option<Stage>,
}

/// Shows the object's life; the exit code is 0 if any process keeps spans.
///
/// # Errors
/// When the object does not exist, the server refuses, or no process keeps spans.
pub(crate) async fn run(args: Trace) -> anyhow::Result<u8> {
    let endpoint = Kubeconfig::read(&args.kubeconfig)?.resolve(None)?;
    let namespace = args.namespace.clone().or_else(|| endpoint.namespace.clone()).unwrap_or_else(|| "default".into());
    let (row, name) = objects::parse(&args.object)?;
    let client = client::of(&endpoint, concat!("oarlock-trace/", env!("CARGO_PKG_VERSION"))).await?;
    let family = objects::read(&client, row, &namespace, name).await?;
    let report = ask::ask(&client, &family).await?;
    let now = u64::try_from(clock::wall().as_nanosecond()).unwrap_or(0);
    let lives = spans::merge(&report, now);
    let shown = picture(&family, &lives, now);
    let text = match args.output.as_str() {
        "json" => json(&family, &shown, &report)?,
        _ => text(&family, &shown, &report, args.width.map_or_else(width, usize::from), now),
    };
    // A closed pipe is no error: its reader has read enough.
    let _closed = std::io::stdout().write_all(text.as_bytes());
    if !report.members.iter().any(|member| member.recording) {
        bail!(
            "no process keeps spans: tracing is off. `oarlock up` keeps them by default; every other part does with the flag --tracing ring or --tracing-config-file (docs/operations/tracing.md)"
        );
    }
    Ok(0)
}

/// Arranges the lives: owners, the object, what it owns. Of the owned pods those that are not Ready come first, then those whose change took longest.
fn picture(family: &Family, lives: &Lives, now: u64) -> Vec<Shown> {
    let show = |found: &Found| {
        let subject = found.subject();
        let spans = lives.get(Change::new(&subject.uid, 0).trace().to_bytes().as_slice());
        let rows = rows::rows(&subject, spans.map_or(&[], Vec::as_slice));
        let failed = |name: &str| rows.iter().rfind(|row| row.name == name)?.error.clone();
        let stage = found.pod().and_then(|pod| {
            let node = family.nodes.iter().find(|(name, _)| name == pod.spec().node_name());
            explain::explain(pod, node.map(|(_, obj)| obj.as_ref().and_then(objects::node)), failed)
        });
        let shares = shares::shares(&rows, now);
        Shown { title: subject.title, goes_on: objects::has_end(found), rows, shares, stage }
    };
    let object = show(&family.object);
    let began = object.rows.first().map_or(0, |root| root.began);
    // Lives that ended long before the object's began would make its bars too short to read.
    let near = |shown: &Shown| shown.rows.first().is_some_and(|root| root.began.saturating_add(NEAR) >= began);
    let mut owned: Vec<Shown> = family.owned.iter().map(show).filter(|shown| near(shown)).collect();
    let took =
        |shown: &Shown| shown.rows.first().map_or(0, |root| root.ended.unwrap_or(now).saturating_sub(root.began));
    owned.sort_by_key(|shown| (shown.stage.is_none(), std::cmp::Reverse(took(shown))));
    let owners = family.owners.iter().map(show).filter(|shown| near(shown));
    owners.chain([object]).chain(owned).collect()
}

/// Lives that began more than this many nanoseconds before the object's newest change are left out.
const NEAR: u64 = 60_000_000_000;

fn text(family: &Family, shown: &[Shown], report: &TraceReport, width: usize, now: u64) -> String {
    let (few, rest) = shown.split_at_checked(family.owners.len() + 1 + SHOWN_PODS).unwrap_or((shown, &[]));
    let drawn = few.iter().filter(|one| one.goes_on || one.rows.len() > 1);
    let sections: Vec<(String, Vec<Row>)> = drawn.map(|one| (one.title.clone(), one.rows.clone())).collect();
    let mut lines = vec![waterfall::draw(&sections, width, now)];
    if !rest.is_empty() {
        lines.push(format!("{} further objects are not shown.\n", rest.len()));
    }
    if let Some(progress) = objects::progress(&family.object) {
        lines.push(format!("{}: {progress}.\n", family.object.subject().title));
    }
    for one in few {
        if let Some(root) = one.rows.first().filter(|_| one.rows.len() > 1) {
            lines.push(format!("{} {}.\n", one.title, words::sentence(root, &one.shares, now)));
        }
        if let Some(Stage { stage, since, why }) = &one.stage {
            let since = if since.is_empty() { String::new() } else { format!(" since {since}") };
            lines.push(format!("{} is not Ready: stage {stage}{since}: {why}\n", one.title));
        }
    }
    if few.iter().all(|one| one.rows.len() <= 1) && report.members.iter().any(|member| member.recording) {
        lines.push(
            "No process keeps steps of this change: none was recorded yet, or newer spans have displaced them.\n"
                .into(),
        );
    }
    lines.extend(missing(report));
    lines.concat()
}

/// Says which processes did not answer, or did not send everything.
fn missing(report: &TraceReport) -> Vec<String> {
    let silent = report.members.iter().filter_map(|member| {
        let error = member.error.as_ref()?;
        Some(format!("{} {} did not answer: {error}", member.role, member.name))
    });
    let truncated = report.members.iter().filter(|member| member.truncated);
    let truncated = truncated.map(|member| format!("{} {} keeps more spans than are shown", member.role, member.name));
    let refused = report.members.iter().filter(|member| member.refused > 0).map(|member| {
        let MemberReport { role, name, refused, .. } = member;
        format!("{role} {name} sent {refused} spans that it may not record: they are not shown")
    });
    let lines = silent.chain(truncated).chain(refused).chain(report.incomplete.clone());
    lines.map(|line| plain(&line) + "\n").collect()
}

fn json(family: &Family, shown: &[Shown], report: &TraceReport) -> anyhow::Result<String> {
    let objects: Vec<serde_json::Value> = shown
        .iter()
        .map(|one| {
            let stages = one.shares.iter().map(|share| json!({"stage": share.stage, "nanoseconds": share.time}));
            let root = one.rows.first();
            json!({
                "object": one.title,
                "began": root.map(|root| root.began),
                "ended": root.and_then(|root| root.ended),
                "stages": stages.collect::<Vec<_>>(),
                "notReady": one.stage,
            })
        })
        .collect();
    let document = json!({
        "object": family.object.subject().title,
        "traceId": Change::new(family.object.obj.meta().uid(), 0).trace().to_string(),
        "objects": objects,
        "members": report.members,
        "traces": report.traces,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Returns the width of the terminal.
fn width() -> usize {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(DEFAULT_WIDTH)
}

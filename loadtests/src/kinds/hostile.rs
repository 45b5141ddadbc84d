//! Measures how one user's requests at the size limit slow another user's small requests and probes.
//!
//! The same small requests are measured twice in one run: alone, then beside the hostile clients. Every hostile request is a dry run, so the
//! state stays as it is; each kind was found to cost a processor seconds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use tokio::runtime::Handle;

use crate::clock::now;
use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::report::{Better, Figure, Times};
use crate::subject::{Bench, Parts, Subject};

const CORE: &str = "/api/v1/namespaces/default";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// Small requests come with a pause, as those of people and controllers do.
const REQUEST_INTERVAL: Duration = Duration::from_millis(5);
/// Small requests beside hostile ones may be this many times slower.
const AIM: f64 = 3.0;
/// The longest that either half may take.
const HALF_TIMEOUT: Duration = Duration::from_secs(300);
/// Niceness of the thread of the hostile clients, as that of the server's threads for large requests.
const NICENESS: i32 = 10;

/// How many hostile clients, and how often the others are measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    clients: usize,
    samples: usize,
}

/// A request that costs much.
struct Hostile {
    method: Method,
    path: String,
    body: Bytes,
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let cluster = bench.start(subject, Parts::Api).await?;
    let hostile = account(&cluster, "hostile", HOSTILE_RULES).await?;
    let modest = account(&cluster, "modest", MODEST_RULES).await?;
    let mut admin = Connection::open(&cluster.kubeconfig, None).await?;
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"small"},"data":{"a":"b"}}"#;
    admin.create(&format!("{CORE}/configmaps"), map.into()).await?;
    admin.create(DEPLOYMENTS, DEPLOYMENT.into()).await?;
    let requests = requests();

    // The first round warms up caches on both sides.
    measure(&cluster, &modest, spec.samples / 10).await?;
    let alone = measure(&cluster, &modest, spec.samples).await?;
    let ends = AtomicBool::new(false);
    let (beside, answers) = tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let attackers = scope.spawn(|| attack_at_once(&cluster, &hostile, &requests, spec.clients, &ends));
            let measured = measure(&cluster, &modest, spec.samples);
            let measured = Handle::current().block_on(async { tokio::time::timeout(HALF_TIMEOUT, measured).await });
            ends.store(true, Ordering::Relaxed);
            let answers = attackers.join().map_err(|_| anyhow!("a hostile client panicked"))??;
            anyhow::Ok((measured.context("not done in time")??, answers))
        })
    })?;
    cluster.usage().context("a server has ended")?;
    cluster.stop().await?;

    let mut codes: BTreeMap<u16, usize> = BTreeMap::new();
    answers.into_iter().for_each(|code| *codes.entry(code).or_default() += 1);
    let mut figures = Vec::new();
    for (what, before, after) in
        [("probes", &alone.probes, &beside.probes), ("small requests", &alone.small, &beside.small)]
    {
        for (name, percent) in [("median", 50), ("99th percentile", 99)] {
            let (before, after) = (before.percentile(percent), after.percentile(percent));
            let ratio = if before > 0.0 { after / before } else { 0.0 };
            figures.push(Figure::new(format!("{what}, {name}, alone"), before, "ms", Better::Lower));
            figures.push(Figure::new(format!("{what}, {name}, beside"), after, "ms", Better::Lower));
            figures.push(Figure::new(format!("{what}, {name}, ratio"), ratio, "×", Better::Lower).aim(AIM));
        }
    }
    for (code, count) in codes {
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        figures.push(Figure::new(format!("hostile requests answered with {code}"), count as f64, "", Better::Neither));
    }
    Ok(figures)
}

/// The durations of probes and small requests.
struct Measured {
    probes: Times,
    small: Times,
}

async fn measure(cluster: &Cluster, token: &str, samples: usize) -> anyhow::Result<Measured> {
    let mut connection = Connection::open(&cluster.kubeconfig, Some(token)).await?;
    let mut measured = Measured { probes: Times::default(), small: Times::default() };
    let review = Bytes::from_static(REVIEW.as_bytes());
    for _ in 0..samples {
        let begun = now();
        connection.send(Method::GET, "/readyz", Bytes::new()).await?;
        measured.probes.add(begun.elapsed());
        tokio::time::sleep(REQUEST_INTERVAL).await;
        let begun = now();
        connection.send(Method::GET, &format!("{CORE}/configmaps/small"), Bytes::new()).await?;
        connection.send(Method::POST, REVIEWS, review.clone()).await?;
        measured.small.add(begun.elapsed());
        tokio::time::sleep(REQUEST_INTERVAL).await;
    }
    Ok(measured)
}

/// Sends hostile requests from this many connections until it is stopped, and returns the codes of the answers. The hostile clients are other machines in truth: they have
/// a thread of their own, of low priority, so that the measured client does not wait for the encryption of their bodies.
fn attack_at_once(
    cluster: &Cluster,
    token: &str,
    requests: &[Hostile],
    clients: usize,
    ends: &AtomicBool,
) -> anyhow::Result<Vec<u16>> {
    rustix::process::setpriority_process(None, NICENESS).context("setpriority")?;
    let clients = (0..clients).map(|first| attack(cluster, token, requests, first, ends));
    let clients = async { tokio::time::timeout(2 * HALF_TIMEOUT, futures::future::try_join_all(clients)).await };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answers = runtime.block_on(clients).context("hostile clients that do not end")??;
    Ok(answers.into_iter().flatten().collect())
}

/// Sends hostile requests one after the other until it is stopped, and returns the codes of their answers.
async fn attack(
    cluster: &Cluster,
    token: &str,
    requests: &[Hostile],
    first: usize,
    ends: &AtomicBool,
) -> anyhow::Result<Vec<u16>> {
    let mut connection = Connection::open(&cluster.kubeconfig, Some(token)).await?;
    let mut codes = Vec::new();
    for request in requests.iter().cycle().skip(first % requests.len().max(1)) {
        if ends.load(Ordering::Relaxed) {
            break;
        }
        let path = format!("{}?dryRun=All", request.path);
        let (code, _) = connection.call(request.method.clone(), &path, request.body.clone(), false).await?;
        codes.push(code);
        if code == 429 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(codes)
}

const HOSTILE_RULES: &str = r#"[{"apiGroups":["","apps"],"resources":["pods","services","deployments"],"verbs":["create","patch","get"]},{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],"verbs":["create"]}]"#;
const MODEST_RULES: &str = r#"[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]"#;
const REVIEW: &str = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"namespace":"default","resource":"pods","verb":"get"}}}"#;
const DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"victim"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;

/// Creates an account with a Role, and returns a token of the account.
async fn account(cluster: &Cluster, name: &str, rules: &str) -> anyhow::Result<String> {
    let mut admin = Connection::open(&cluster.kubeconfig, None).await?;
    let group = "rbac.authorization.k8s.io";
    let accounts = format!("{CORE}/serviceaccounts");
    let objects = [
        (accounts.clone(), format!(r#"{{"apiVersion":"v1","kind":"ServiceAccount","metadata":{{"name":"{name}"}}}}"#)),
        (
            format!("{RBAC}/roles"),
            format!(r#"{{"apiVersion":"{group}/v1","kind":"Role","metadata":{{"name":"{name}"}},"rules":{rules}}}"#),
        ),
        (
            format!("{RBAC}/rolebindings"),
            format!(
                r#"{{"apiVersion":"{group}/v1","kind":"RoleBinding","metadata":{{"name":"{name}"}},"roleRef":{{"apiGroup":"{group}","kind":"Role","name":"{name}"}},"subjects":[{{"kind":"ServiceAccount","name":"{name}","namespace":"default"}}]}}"#
            ),
        ),
    ];
    for (path, body) in objects {
        admin.create(&path, body.into()).await?;
    }
    let ask = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}"#;
    let answer = admin.send(Method::POST, &format!("{accounts}/{name}/token"), Bytes::from(ask)).await?;
    let answer: serde_json::Value = serde_json::from_slice(&answer)?;
    answer.pointer("/status/token").and_then(|token| token.as_str()).map(str::to_owned).context("no token")
}

/// The given number of items, each made from its index, separated by commas.
fn many(count: usize, item: impl Fn(&mut String, usize)) -> String {
    let mut text = String::new();
    for i in 0..count {
        if i > 0 {
            text.push(',');
        }
        item(&mut text, i);
    }
    text
}

/// Writing to a String cannot fail.
fn wrote(result: std::fmt::Result) {
    result.unwrap_or_default();
}

/// The hostile requests. All are near the size limit, except the last, whose product is large.
fn requests() -> Vec<Hostile> {
    let named = |out: &mut String, i: usize| wrote(write!(out, r#"{{"name":"p{i}","port":{}}}"#, i % 65_000 + 1));
    let managers = many(60_000, |out, i| wrote(write!(out, r#"{{"manager":"{i}","operation":"Update"}}"#)));
    let variables = many(12_000, |out, i| wrote(write!(out, r#"{{"name":"E{i}","value":"x"}}"#)));
    let ports = many(40_000, named);
    let container_ports = many(60_000, |out, i| wrote(write!(out, r#"{{"containerPort":{}}}"#, i % 65_000 + 1)));
    let words = |word: &str| many(100, |out, i| wrote(write!(out, r#""{word}{i}""#)));
    let pod = |container: String| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"large"}},"spec":{{"containers":[{{"name":"c","image":"i",{container}}}]}}}}"#
        )
    };
    let create = |path: &str, body: String| Hostile { method: Method::POST, path: path.to_owned(), body: body.into() };
    vec![
        create(
            REVIEWS,
            format!(
                r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","metadata":{{"managedFields":[{managers}]}},"spec":{{"resourceAttributes":{{"resource":"pods","verb":"get"}}}}}}"#
            ),
        ),
        Hostile {
            method: Method::PATCH,
            path: format!("{DEPLOYMENTS}/victim"),
            body: format!(
                r#"{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"c","env":[{variables}]}}]}}}}}}}}"#
            )
            .into(),
        },
        create(
            &format!("{CORE}/services"),
            format!(
                r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"large"}},"spec":{{"ports":[{ports}]}}}}"#
            ),
        ),
        create(&format!("{CORE}/pods"), pod(format!(r#""ports":[{container_ports}]"#))),
        create(
            &format!("{CORE}/pods"),
            pod(format!(r#""resources":{{"requests":{{"cpu":"{}"}}}}"#, "1".repeat(2_900_000))),
        ),
        create(
            &format!("{RBAC}/roles"),
            format!(
                r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{{"name":"large"}},"rules":[{{"apiGroups":[{}],"resources":[{}],"verbs":[{}]}}]}}"#,
                words("g"),
                words("r"),
                words("v")
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::requests;

    #[test]
    fn hostile_bodies_are_json_and_below_the_size_limit() {
        for request in requests() {
            let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&request.body);
            assert!(parsed.is_ok(), "{}: {:?}", request.path, parsed.err());
            assert!(request.body.len() < 3 << 20, "{}: {}", request.path, request.body.len());
        }
    }
}

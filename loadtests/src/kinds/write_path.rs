//! Measures the processor time of one durable create, stage by stage. Each stage runs by itself in a loop, all of them in this process; the whole create is
//! measured from outside over HTTPS. The rest is attributed to the code between the stages.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use oarlock_admission::{Attributes, Operation, RequestContext, Subject};
use oarlock_apiserver::{InProcess, Server};
use oarlock_auth::UserInfo;
use oarlock_client::Client;
use oarlock_codec::Mode;
use oarlock_meta::Time;
use oarlock_patch::apply::{Versions, Writer, track_create};
use oarlock_registry::kind::{Request, Requester};
use oarlock_registry::{fields, prepare, stored, table};
use oarlock_runtime::{System, clock};
use oarlock_schema::{Obj, Resource, resource};
use oarlock_service_apiserver::assemble::{self, Store};
use rustix::time::ClockId;
use serde::Deserialize;

use super::create;
use crate::report::{Better, Figure};
use crate::subject::{Bench, Parts, Subject as Measured};

/// The limit until the server has made the objects that every cluster has.
const READY: Duration = Duration::from_secs(30);
const CLIENTS: usize = 64;
const CONNECTIONS: usize = 8;
const USER: &str = "kubernetes-super-admin";

/// How often.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    rounds: usize,
}

/// A stage, its budget in the design and its measured time, in µs.
struct Stage {
    name: &'static str,
    budget: f64,
    micros: f64,
}

/// Measures. Only ours has these stages.
pub(crate) async fn run(bench: &Bench, subject: Measured, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    if subject != Measured::Oarlock {
        return Ok(Vec::new());
    }
    let rounds = spec.rounds;
    let directory = tempfile::tempdir()?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let cluster =
        assemble::Cluster::new(directory.path().to_path_buf(), Store::Embedded(directory.path().join("store")));
    let api = assemble::start(&system, cluster).await?;
    oarlock_apiserver::start::ready(&api.server, clock::after(READY)).await?;
    let client = Client::new(Arc::new(InProcess::new(
        api.server.clone(),
        UserInfo::new(USER, [oarlock_auth::user::MASTERS]),
        "oarlock-loadtests",
    )));
    let pods = resource("", "v1", "pods").context("no pods")?;
    account(&client).await?;
    let mut stages = alone(&api.server, pods, rounds).await?;
    let within = in_process(&client, pods, rounds).await?;
    let outside = from_outside(bench, rounds).await?;
    let accounted: f64 = stages.iter().map(|stage| stage.micros).sum();
    let decode = stages.first().map_or(0.0, |stage| stage.micros);
    stages.push(Stage { name: "commit, View, respond", budget: 14.0, micros: within - (accounted - decode) });
    stages.push(Stage { name: "TLS, HTTP, authentication", budget: 16.0, micros: outside - within - decode });
    stages.push(Stage { name: "all of it, from outside", budget: 49.0, micros: outside });
    let figure = |stage: &Stage| Figure::new(stage.name, stage.micros, "µs", Better::Lower).aim(stage.budget);
    Ok(stages.iter().map(figure).collect())
}

/// Pure stages, one after the other on one object each time anew.
async fn alone(server: &Server, pods: &'static Resource, rounds: usize) -> anyhow::Result<Vec<Stage>> {
    let kind = table::kind(pods);
    let body = create::pod(0);
    let decode = || Ok::<Obj, anyhow::Error>(oarlock_codec::json::decode(&body, pods.ty, Mode::Strict)?.value);
    let writer = Writer {
        manager: "oarlock-loadtests",
        api_version: "v1",
        subresource: "",
        reset: fields::reset_paths(pods, ""),
        now: Time::from_unix(0),
        versions: Versions::ONE,
    };
    let (groups, extra) = (vec![oarlock_auth::user::MASTERS.to_owned()], BTreeMap::new());
    let user = Requester { name: USER, uid: "", groups: &groups, extra: &extra };
    let request = Request { resource: pods, endpoint: "", now: "2026-01-01T00:00:00Z", user };
    let mut spent = [0.0; 6];
    let mut lap = Lap::start();
    for _ in 0..rounds {
        let mut obj = black_box(decode()?);
        lap.to(&mut spent[0]);
        if let Some(mut meta) = obj.meta_mut() {
            meta.set_namespace("default");
        }
        oarlock_apis::default(&mut obj);
        lap.to(&mut spent[1]);
        track_create(&mut obj, &writer);
        lap.to(&mut spent[2]);
        let mut context = RequestContext::new(clock::after(READY), false);
        let mut attributes = attributes(pods, &groups, &mut obj, &mut context);
        server.admission().admit(&mut attributes).await?;
        server.admission().validate(&mut attributes).await?;
        lap.to(&mut spent[3]);
        prepare::before_create(kind, &request, "00000000-0000-0000-0000-000000000000", &mut obj);
        server.disabled().drop(&mut obj, None);
        black_box(oarlock_apis::warnings(&obj));
        let mut errors = oarlock_apis::validate_create(pods, &obj);
        kind.strategy.validate(&request, &obj, None, &mut errors);
        anyhow::ensure!(errors.is_empty(), "{errors:?}");
        lap.to(&mut spent[4]);
        let key = oarlock_storage::Key::namespaced("/registry/pods/", "default", obj.name());
        black_box(stored::encode(&key, &mut obj));
        lap.to(&mut spent[5]);
    }
    let names = [
        ("decode", 4.0),
        ("defaults", 2.0),
        ("managedFields", 4.0),
        ("admission", 2.0),
        ("prepare, warn, validate", 4.0),
        ("canonical form, encode, index", 3.0),
    ];
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let stage = |((name, budget), nanos): ((&'static str, f64), f64)| Stage {
        name,
        budget,
        micros: nanos / 1000.0 / rounds as f64,
    };
    Ok(names.into_iter().zip(spent).map(stage).collect())
}

fn attributes<'a>(
    pods: &'static Resource,
    groups: &'a [String],
    obj: &'a mut Obj,
    context: &'a mut RequestContext,
) -> Attributes<'a> {
    Attributes {
        operation: Operation::Create,
        resource: pods,
        subresource: "",
        namespace: "default",
        name: "",
        user: Subject::new(USER, groups),
        object: Some(obj),
        old: None,
        context,
        authorizer: None,
        bus: None,
    }
}

/// Everything behind the decoder, durable, with as many writers at a time as from outside: µs of this whole process.
async fn in_process(client: &Client, pods: &'static Resource, rounds: usize) -> anyhow::Result<f64> {
    let objects: Vec<Obj> = (0..rounds)
        .map(|i| {
            let mut obj = oarlock_codec::json::decode(&create::pod(i), pods.ty, Mode::Strict)?.value;
            if let Some(mut meta) = obj.meta_mut() {
                meta.set_namespace("default");
            }
            Ok(obj)
        })
        .collect::<anyhow::Result<_>>()?;
    let share = objects.len().div_ceil(CLIENTS);
    let before = process_micros();
    let work = objects.chunks(share).map(|own| {
        let (client, own) = (client.clone(), own.to_vec());
        #[expect(clippy::disallowed_methods, reason = "a load generator has no actors")]
        tokio::spawn(async move {
            for obj in own {
                client.create(pods, obj).await?;
            }
            Ok::<_, oarlock_meta::Status>(())
        })
    });
    for done in futures::future::join_all(work).await {
        done??;
    }
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    Ok((process_micros() - before) / rounds as f64)
}

async fn account(client: &Client) -> anyhow::Result<()> {
    let accounts = resource("", "v1", "serviceaccounts").context("no serviceaccounts")?;
    let mut account = Obj::new(accounts.ty);
    if let Some(mut meta) = account.meta_mut() {
        meta.set_name("default").set_namespace("default");
    }
    client.create(accounts, account).await?;
    Ok(())
}

/// The same over HTTPS: µs of the server's process.
async fn from_outside(bench: &Bench, rounds: usize) -> anyhow::Result<f64> {
    let cluster = bench.start(Measured::Oarlock, Parts::Api).await?;
    create::account(&cluster).await?;
    let connections = create::open(&cluster, CONNECTIONS, None).await?;
    let before = cluster.usage()?;
    create::fill(&connections, CLIENTS, rounds, &create::pod).await?;
    let micros = cluster.usage()?.micros_each(before, rounds);
    cluster.stop().await?;
    Ok(micros)
}

/// Processor time of this thread between two looks.
struct Lap(i64);

impl Lap {
    fn start() -> Self {
        Self(nanos(ClockId::ThreadCPUTime))
    }

    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn to(&mut self, sum: &mut f64) {
        *sum += (nanos(ClockId::ThreadCPUTime) - self.0) as f64;
        self.0 = nanos(ClockId::ThreadCPUTime);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn process_micros() -> f64 {
    nanos(ClockId::ProcessCPUTime) as f64 / 1000.0
}

fn nanos(of: ClockId) -> i64 {
    let time = rustix::time::clock_gettime(of);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

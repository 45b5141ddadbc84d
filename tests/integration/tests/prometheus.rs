//! The real Prometheus scrapes a cluster, and is asked for every metric that dashboards and alert rules ask for.

mod state_metrics;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;

use oarlock_config::{Kubeconfig, ServerTrust};
use oarlock_testkit::http::{Answer, Http, Session, Who};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Kubectl, Process, metrics, port};
use serde_json::Value;

/// A metric that is asked for.
struct Asked {
    name: String,
    /// Labels by which queries select or group.
    labels: BTreeSet<String>,
    /// Bounds of buckets that queries name, in seconds.
    buckets: Vec<u64>,
    /// The file whose test shows the metric, if this cluster has no samples of it.
    shown_in: Option<String>,
    /// The part that the metric waits for if it has no samples.
    waits_for: Option<String>,
}

impl Asked {
    fn is_wanted(&self) -> bool {
        self.waits_for.is_none() && self.shown_in.is_none()
    }
}

/// A running Prometheus.
struct Prometheus {
    port: u16,
    /// The process, which ends with this value.
    _process: Process,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes the targets every second, each as a job; `None` where there is no Prometheus.
    fn start(token: &str, targets: &[(&str, &str)]) -> Option<Self> {
        if let Err(why) = Command::new("prometheus").arg("--version").output() {
            oarlock_testkit::skipped!("prometheus: {why}: nothing was scraped");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), token).unwrap();
        let mut config = "global: {scrape_interval: 1s}\nscrape_configs:\n".to_owned();
        for (job, target) in targets {
            let _ = writeln!(
                config,
                "- {{job_name: {job}, scheme: https, tls_config: {{insecure_skip_verify: true}}, \
                 authorization: {{credentials_file: {}}}, static_configs: [{{targets: ['{target}']}}]}}",
                folder.path().join("token").display()
            );
        }
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let port = port::own();
        let mut command = Command::new("prometheus");
        command.arg("--config.file").arg(&file).arg("--storage.tsdb.path").arg(folder.path().join("data"));
        command.args(["--web.listen-address", &format!("127.0.0.1:{port}"), "--enable-feature", "exemplar-storage"]);
        Some(Self { port, _process: Process::start(command, "prometheus"), _folder: folder })
    }

    /// Returns the data of an answer of Prometheus' API.
    fn api(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
        let encoded = |text: &str| {
            text.bytes().fold(String::new(), |mut out, byte| {
                match byte.is_ascii_alphanumeric() {
                    true => out.push(char::from(byte)),
                    false => drop(write!(out, "%{byte:02x}")),
                }
                out
            })
        };
        let query: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let body = plain_http(self.port, &format!("/api/v1/{path}?{}", query.join("&")))?;
        let body: Value = serde_json::from_str(&body).map_err(|error| format!("{error}: {body}"))?;
        if body["status"] == "success" { Ok(body["data"].clone()) } else { Err(body.to_string()) }
    }

    /// Returns the series that a query finds.
    fn query(&self, query: &str) -> Vec<Value> {
        self.api("query", &[("query", query)]).unwrap()["result"].as_array().unwrap().clone()
    }

    /// Returns the number of series of each name, and by name the labels that some series has.
    fn names(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for series in self.query("{__name__=~\".+\"}") {
            let labels = series["metric"].as_object().unwrap();
            let name = labels["__name__"].as_str().unwrap().to_owned();
            let own = labels.keys().filter(|label| !["__name__", "job", "instance"].contains(&label.as_str()));
            names.entry(name).or_default().extend(own.cloned());
        }
        names
    }
}

/// Returns the body of an answer over plain HTTP, from a server of this machine.
fn plain_http(port: u16, target: &str) -> Result<String, String> {
    let get = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(format!("GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = get().map_err(|error| error.to_string())?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).ok_or(answer)
}

/// Gives a service account the rights of a scraper, and returns its token.
fn scraper(kubectl: &Kubectl) -> String {
    kubectl.ok("create serviceaccount prometheus");
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: scraper}\nrules:\n\
                - {nonResourceURLs: [/metrics], verbs: [get]}\n\
                - {apiGroups: [\"\"], resources: [nodes/metrics], verbs: [get]}\n";
    let _applied = kubectl.run_with("apply -f -", role).ok();
    kubectl.ok("create clusterrolebinding scraper --clusterrole=scraper --serviceaccount=default:prometheus");
    kubectl.ok("create token prometheus").trim().to_owned()
}

/// Starts a simulated kubelet in a process of its own, at this port.
fn kubelet(cluster: &Cluster, port: u16) -> Process {
    let mut command = Command::new(oarlock_testkit::oarlock());
    command.args(["kubelet", "--runtime", "sim", "--node-name", "apart", "--port", &port.to_string()]);
    command.arg("--kubeconfig").arg(cluster.kubeconfig()).arg("--data-dir").arg(cluster.data_dir().root());
    Process::start(command, "kubelet")
}

/// Does a little of everything that is counted.
fn work(cluster: &Cluster, kubectl: &Kubectl) {
    kubectl.ok("create deployment web --image=registry.k8s.io/pause:3.10 --replicas=3");
    kubectl.ok("create deployment tried --image=registry.k8s.io/pause:3.10 --dry-run=server");
    kubectl.ok("scale deployment web --replicas=4");
    kubectl.ok("rollout status deployment web --timeout=60s");
    kubectl.ok("create deployment wide --image=registry.k8s.io/pause:3.10");
    kubectl.ok("set resources deployment wide --requests=cpu=1000");
    // A watch that ends.
    let answer = cluster.http(Who::Admin).get("/api/v1/pods?watch=1&timeoutSeconds=1");
    assert_eq!(answer.code, 200, "{answer}");
}

fn asked() -> Vec<Asked> {
    let rows: Vec<Value> = serde_norway::from_str(include_str!("prometheus/asked.yaml")).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let row = |row: &Value| Asked {
        name: text(&row["name"]).unwrap(),
        labels: list(&row["labels"]).iter().filter_map(text).collect(),
        buckets: list(&row["buckets"]).iter().filter_map(Value::as_u64).collect(),
        shown_in: text(&row["shown_in"]),
        waits_for: text(&row["waits_for"]),
    };
    rows.iter().map(row).collect()
}

/// Returns the name under which Prometheus keeps a series of a family.
fn stored(name: &str) -> String {
    let histogram = metrics::upstream().iter().any(|known| known.name == name && known.kind == "histogram");
    if histogram || name.ends_with("_duration_seconds") { format!("{name}_bucket") } else { name.to_owned() }
}

#[test]
fn every_metric_that_dashboards_ask_for_is_scraped_or_waits_for_a_part() {
    let config = tempfile::NamedTempFile::new().unwrap();
    // Nobody listens there: sampled spans are dropped, and their exemplars stay.
    let collector = format!("127.0.0.1:{}", port::own());
    std::fs::write(config.path(), format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: {collector}\nsamplingRatePerMillion: 1000000\n"
    ))
    .unwrap();
    let cluster = Cluster::up(&["--nodes", "2", "--tracing-config-file", config.path().to_str().unwrap()]);
    let kubectl = cluster.kubectl();
    let port = port::own();
    let _kubelet = kubelet(&cluster, port);
    let token = scraper(&kubectl);
    let api = cluster.http(Who::Anonymous).address().to_owned();
    let node = format!("127.0.0.1:{port}");
    let Some(prometheus) = Prometheus::start(&token, &[("apiserver", &api), ("kubelet", &node)]) else { return };
    kubectl.ok("wait --for=condition=Ready node --all --timeout=60s");
    // Before there is work, since rates are increases between two scrapes.
    eventually("both targets are scraped", || {
        let up = prometheus.api("query", &[("query", "up == 1")])?["result"].as_array().map_or(0, Vec::len);
        if up == 2 { Ok(()) } else { Err(prometheus.api("targets", &[])?.to_string()) }
    });
    work(&cluster, &kubectl);
    let all = asked();
    let names = eventually("every metric has samples", || {
        let names = prometheus.names();
        let empty: Vec<&str> = all
            .iter()
            .filter(|asked| asked.is_wanted())
            .map(|asked| asked.name.as_str())
            .filter(|name| !names.contains_key(&stored(name)))
            .collect();
        if empty.is_empty() { Ok(names) } else { Err(format!("no samples: {empty:?}")) }
    });
    for asked in &all {
        let there = names.get(&stored(&asked.name));
        assert!(there.is_none() || asked.is_wanted(), "{} has samples: it waits for nothing any more", asked.name);
        let lacks: Vec<&String> =
            asked.labels.iter().filter(|label| there.is_some_and(|own| !own.contains(*label))).collect();
        assert!(lacks.is_empty(), "{}: no series has {lacks:?}", asked.name);
        for bound in &asked.buckets {
            let query = format!("{}_bucket{{le=~\"{bound}([.]0)?\"}}", asked.name);
            assert!(!prometheus.query(&query).is_empty(), "{query}");
        }
    }
    let mut wrong = Vec::new();
    for upstream in metrics::upstream() {
        let Some(found) = names.get(&stored(&upstream.name)) else { continue };
        let labels: BTreeSet<&str> = upstream.labels.iter().map(String::as_str).collect();
        let found: BTreeSet<&str> = found.iter().map(String::as_str).filter(|label| *label != "le").collect();
        // Prometheus does not keep empty labels. Labels that only some requests have are checked where they are made.
        if !found.is_subset(&labels) || (found.is_empty() && !labels.is_empty()) {
            wrong.push(format!("{}: {found:?}, and not {labels:?}", upstream.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    values(&prometheus);
    queries_run(&prometheus);
    exemplars(&prometheus);
    formats(&cluster.http(Who::Admin), &cluster, port);
    // The kubelets of the API server's process have no endpoint of their own: each series would be read twice.
    let refused = cluster.http(Who::Admin).get("/api/v1/nodes/node-1/proxy/metrics");
    assert!(refused.code == 404 && refused.text().contains("shows its metrics at its API server"), "{refused}");
}

/// Checks queries as dashboards make them.
fn values(prometheus: &Prometheus) {
    for query in [
        // A bucket by the text of its bound, in OpenMetrics.
        "apiserver_request_sli_duration_seconds_bucket{le=\"1.0\",verb=\"LIST\",scope=\"namespace\",subresource=\"\"} > 0",
        "apiserver_request_total{verb=\"POST\",resource=\"deployments\",group=\"apps\",dry_run=\"All\",code=\"201\"} > 0",
        "apiserver_request_total{verb=\"WATCH\",resource=\"pods\",code=\"200\"} > 0",
        "apiserver_request_total{resource=\"pods\",subresource=\"binding\",verb=\"POST\"} > 0",
        "apiserver_longrunning_requests{verb=\"WATCH\",resource=\"pods\"} > 0",
        "apiserver_storage_objects{resource=\"pods\"} >= 4",
        "histogram_quantile(0.99, sum(rate(workqueue_queue_duration_seconds_bucket{name=\"replicaset-controller\"}[1m])) by (le)) > 0",
        "scheduler_schedule_attempts_total{result=\"scheduled\"} >= 4",
        "scheduler_scheduling_attempt_duration_seconds_count{result=\"scheduled\"} >= 4",
        "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"1\"} >= 4",
        "kubelet_node_name{job=\"kubelet\",node=\"apart\"} == 1",
        "kubelet_node_name{job=\"apiserver\",node=\"node-1\"} == 1",
        "rest_client_requests_total{job=\"kubelet\",method=\"GET\",code=\"200\"} > 0",
        "sum(kubelet_running_pods) >= 4",
        "sum(kubelet_pod_start_duration_seconds_count) >= 4",
        "kubelet_pod_worker_duration_seconds_count{operation_type=\"create\"} > 0",
        "sum(kubelet_running_containers{container_state=\"running\"}) >= 4",
        "kubelet_runtime_operations_total{operation_type=\"create_container\"} > 0",
    ] {
        eventually(query, || {
            let found = prometheus.query(query);
            if found.is_empty() { Err("no series") } else { Ok(()) }
        });
    }
    // Each series is served at one endpoint, and once.
    let twice = prometheus.query("count by (__name__, node) ({__name__=\"kubelet_node_name\"}) > 1");
    assert!(twice.is_empty(), "{twice:?}");
}

/// Checks that the store runs every query of the dashboards, and finds series with some of them.
fn queries_run(prometheus: &Prometheus) {
    let mut found = 0;
    for (place, query) in crate::observe::dashboards::filled_in() {
        let data = prometheus.api("query", &[("query", &query)]);
        let data = data.unwrap_or_else(|error| panic!("{place}: {query}: {error}"));
        found += usize::from(data["result"].as_array().is_some_and(|series| !series.is_empty()));
    }
    assert!(found > 0, "no query finds anything");
}

/// Checks that buckets of requests and of scheduling attempts lead to traces.
fn exemplars(prometheus: &Prometheus) {
    for name in ["apiserver_request_duration_seconds_bucket", "scheduler_scheduling_attempt_duration_seconds_bucket"] {
        eventually(name, || {
            let found = prometheus.api("query_exemplars", &[("query", name), ("start", "0"), ("end", "9999999999")])?;
            let series = found.as_array().cloned().unwrap_or_default();
            let traces = series.iter().flat_map(|one| one["exemplars"].as_array().cloned().unwrap_or_default());
            let is_trace = |exemplar: &Value| exemplar["labels"]["trace_id"].as_str().is_some_and(|id| id.len() == 32);
            if traces.into_iter().any(|exemplar| is_trace(&exemplar)) { Ok(()) } else { Err(found.to_string()) }
        });
    }
}

/// Checks that both formats have the same series, and that names, types, labels and bounds are upstream's.
fn formats(api: &Http, cluster: &Cluster, kubelet: u16) {
    let mut endpoint = Kubeconfig::read(&cluster.kubeconfig()).and_then(|file| file.resolve(None)).unwrap();
    endpoint.trust = ServerTrust::Anybody;
    let kubelet = Http::new(&endpoint, Who::Admin).at(SocketAddr::from(([127, 0, 0, 1], kubelet)));
    for http in [api, &kubelet] {
        let get = |accept: &str| http.send("GET", "/metrics", &[("Accept", accept)], b"");
        let (open, plain) = (get("application/openmetrics-text; version=1.0.0"), get("text/plain"));
        let media = |answer: &Answer| answer.header("content-type").unwrap_or_default().to_owned();
        assert_eq!(media(&open), "application/openmetrics-text; version=1.0.0; charset=utf-8");
        assert_eq!(media(&plain), "text/plain; version=0.0.4; charset=utf-8");
        let (open, plain) = (open.text(), plain.text());
        assert!(open.ends_with("# EOF\n") && !plain.contains("# EOF"), "{open}");
        let series = |text: &str| -> BTreeSet<(String, Vec<String>)> {
            // The lives of actors change from one scrape to the next.
            let stable = metrics::samples(text).into_iter().filter(|sample| sample.name != "oarlock_actors");
            let stable = stable.map(|mut sample| {
                if let Some(bound) = sample.labels.get_mut("le").filter(|bound| *bound != "+Inf") {
                    *bound = bound.parse::<f64>().unwrap().to_string();
                }
                (sample.name, sample.labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
            });
            stable.collect()
        };
        let (of_open, of_plain) = (series(&open), series(&plain));
        // The first scrape may itself be what began a series.
        let lost: Vec<_> = of_open.difference(&of_plain).collect();
        assert!(lost.is_empty(), "{lost:?}");
        assert!(!plain.contains("trace_id"), "{plain}");
        let served: BTreeSet<&str> = metrics::families(&open).keys().copied().collect();
        let known = metrics::upstream().iter().filter(|known| {
            let family = known.name.strip_suffix("_total").unwrap_or(&known.name);
            served.contains(family) && open.contains(&format!("\n{family}"))
        });
        let wrong: Vec<String> = known.filter_map(|known| metrics::differs(&open, &known.name)).collect();
        assert!(wrong.iter().all(|why| why.ends_with("no sample")), "{}", wrong.join("\n"));
    }
}

/// A row of a metric that this cluster has no samples of names the test that checks it by upstream's facts.
#[test]
fn metrics_that_are_shown_elsewhere_are_checked_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for Asked { name, shown_in, .. } in asked() {
        let Some(file) = shown_in else { continue };
        let text = std::fs::read_to_string(root.join(&file)).unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
        let tests = text.find("#[test]").map_or("", |start| &text[start..]);
        assert!(tests.contains(&format!("\"{name}\"")) && tests.contains("check("), "{name}: no test in {file}");
    }
}

/// Sends one request of each kind that names made-up things, with a user agent of its own.
fn ask_for_made_up_things(session: &mut Session, number: usize) -> usize {
    let verb = format!("MADEUP{number}");
    let requests = [
        ("GET", format!("/apis/made-up-{number}.example/v1/things/x")),
        ("GET", format!("/apis/apps/made-up-{number}/deployments")),
        ("GET", format!("/apis/apps/v1/namespaces/default/made-up-{number}/x")),
        ("GET", format!("/api/v1/namespaces/made-up-{number}/pods")),
        ("GET", format!("/api/v1/namespaces/default/pods/x/made-up-{number}")),
        ("GET", format!("/made-up-{number}")),
        ("POST", format!("/api/v1/namespaces/default/configmaps?dryRun=made-up-{number}")),
        (verb.as_str(), "/api/v1/namespaces/default/pods/x".to_owned()),
    ];
    let agent = format!("made-up-{number}/1.0");
    for (method, path) in &requests {
        // Refused or not found: what counts is only how it is counted.
        let answer = session.send(method, path, &[("User-Agent", &agent)], b"");
        assert!(answer.code < 500 || answer.code == 501, "{method} {path}: {answer}");
    }
    requests.len()
}

#[test]
fn ten_thousand_requests_for_made_up_things_add_no_series() {
    const REQUESTS: usize = 10_000;
    const CONNECTIONS: usize = 4;
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let series = || -> BTreeSet<String> {
        let text = http.get("/metrics").text();
        assert!(!text.to_lowercase().contains("made-up") && !text.contains("MADEUP"), "{text}");
        // The lives of actors change from one scrape to the next.
        let counted = metrics::samples(&text).into_iter().filter(|one| one.name != "oarlock_actors");
        counted.map(|one| format!("{} {:?}", one.name, one.labels)).collect()
    };
    let of_a_round = ask_for_made_up_things(&mut http.session(), 0);
    // The first scrape is itself a request.
    series();
    let before = series();
    let rounds = REQUESTS.div_ceil(of_a_round);
    let sent: usize = thread::scope(|scope| {
        let threads: Vec<_> = (1..=CONNECTIONS)
            .map(|first| {
                let mut session = http.session();
                scope.spawn(move || {
                    let rounds = (first..=rounds).step_by(CONNECTIONS);
                    rounds.map(|number| ask_for_made_up_things(&mut session, number)).sum::<usize>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(sent >= REQUESTS, "{sent}");
    let after = series();
    let added: Vec<&String> = after.difference(&before).collect();
    assert!(
        added.is_empty() && after.len() == before.len(),
        "{} before, {} after: {added:#?}",
        before.len(),
        after.len()
    );
}
